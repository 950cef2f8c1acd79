package task_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

var (
	start  = time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)
	policy = task.Policy{CancelGrace: 30 * time.Second}
	holder = task.Holder{Worker: "w", Token: 1}
)

const life = 5 * time.Second

// fresh is a task as it is created.
func fresh() task.Task {
	return task.Task{
		Tenant: "default", ID: "t_1", Owner: "o", RootOwner: "o", Kind: "job", Queue: "default", State: task.Pending, MaxAttempts: 2,
		Backoff: task.Backoff{Initial: time.Second, Max: time.Minute}, Delivery: task.DeliverWake,
		ParentThread: identity.Thread{Tenant: "default", Agent: "a", User: "u", Session: "s"}, CreateTime: start,
	}
}

// after applies events to a fresh task; they must succeed.
func after(t testing.TB, events ...task.Event) task.Task {
	t.Helper()
	one := fresh()
	for _, e := range events {
		var err error
		if one, _, err = task.Apply(one, e, start, policy); err != nil {
			t.Fatalf("set up by %T: %v", e, err)
		}
	}
	return one
}

func interaction(id string) task.WaitingFor {
	return task.WaitingFor{Interactions: []task.Interaction{{ID: id, Expire: start.Add(time.Hour)}}}
}

// states are tasks in every state, running with and without a cancel.
func states(t testing.TB) map[string]task.Task {
	lease := task.Leased{Worker: "w", Life: life}
	return map[string]task.Task{
		"PENDING":             after(t),
		"RUNNING":             after(t, lease),
		"RUNNING, CANCELLING": after(t, lease, task.CancelAsked{Reason: "no more"}),
		"WAITING":             after(t, lease, task.Suspended{By: holder, For: interaction("i1")}),
		"COMPLETED":           after(t, lease, task.Finished{By: holder, Result: &task.Result{Text: "done"}}),
		"FAILED":              after(t, lease, task.Broke{By: holder, Fault: task.Fault{Reason: "boom"}}),
		"PARTIAL":             after(t, lease, task.Broke{By: holder, Fault: task.Fault{Reason: "boom"}, Partial: &task.Result{Text: "half"}}),
		"CANCELLED":           after(t, task.CancelAsked{}),
	}
}

// TestTransitions is the state machine as a table: for every state and every event, the state after it, or the reason of the refusal.
func TestTransitions(t *testing.T) {
	result := &task.Result{Text: "done"}
	events := []struct {
		name  string
		event task.Event
		at    time.Duration
		want  map[string]string
	}{
		{"leased", task.Leased{Worker: "w2", Life: life}, 0, map[string]string{
			"PENDING": "RUNNING", "RUNNING": "LEASE_LOST", "RUNNING, CANCELLING": "LEASE_LOST", "WAITING": "LEASE_LOST",
			"COMPLETED": "LEASE_LOST", "FAILED": "LEASE_LOST", "PARTIAL": "LEASE_LOST", "CANCELLED": "LEASE_LOST",
		}},
		{"renewed", task.Renewed{By: holder}, time.Second, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "RUNNING", "RUNNING, CANCELLING": "RUNNING", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"renewed over budget", task.Renewed{By: holder, Progress: &task.Progress{Tokens: 101}}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "FAILED", "RUNNING, CANCELLING": "RUNNING", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"released", task.Renewed{By: holder, Release: true}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "PENDING", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"finished", task.Finished{By: holder, Call: []byte("f"), Result: result}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "COMPLETED", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"finished by another token", task.Finished{By: task.Holder{Worker: "w", Token: 2}, Result: result}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "LEASE_LOST", "RUNNING, CANCELLING": "LEASE_LOST", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"finished by another worker", task.Finished{By: task.Holder{Worker: "thief", Token: 1}, Result: result}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "LEASE_LOST", "RUNNING, CANCELLING": "LEASE_LOST", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"failed for good", task.Broke{By: holder, Call: []byte("b"), Fault: task.Fault{Reason: "boom"}}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "FAILED", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"failed, may be tried again", task.Broke{By: holder, Call: []byte("r"), Fault: task.Fault{Reason: "busy", Retryable: true}}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "PENDING", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"failed with output", task.Broke{By: holder, Call: []byte("p"), Fault: task.Fault{Reason: "cut"}, Partial: result}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "PARTIAL", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"suspended", task.Suspended{By: holder, Call: []byte("s"), For: interaction("i1")}, 0, map[string]string{
			"PENDING": "LEASE_LOST", "RUNNING": "WAITING", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "LEASE_LOST",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"answered", task.Answered{Answers: []task.Answer{{InteractionID: "i1", Decision: "approve"}}}, 0, map[string]string{
			"PENDING": "INTERACTION_NOT_FOUND", "RUNNING": "INTERACTION_NOT_FOUND", "RUNNING, CANCELLING": "INTERACTION_NOT_FOUND", "WAITING": "PENDING",
			"COMPLETED": "TASK_ENDED", "FAILED": "TASK_ENDED", "PARTIAL": "TASK_ENDED", "CANCELLED": "TASK_ENDED",
		}},
		{"cancelled", task.CancelAsked{Reason: "x"}, 0, map[string]string{
			"PENDING": "CANCELLED", "RUNNING": "RUNNING", "RUNNING, CANCELLING": "RUNNING", "WAITING": "CANCELLED",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
		{"a child ended", task.ChildEnded{}, 0, map[string]string{
			"PENDING": "PENDING", "RUNNING": "RUNNING", "RUNNING, CANCELLING": "RUNNING", "WAITING": "WAITING",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
		{"time within the lease", task.Ticked{}, life - 1, map[string]string{
			"PENDING": "PENDING", "RUNNING": "RUNNING", "RUNNING, CANCELLING": "RUNNING", "WAITING": "WAITING",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
		{"time past the lease", task.Ticked{}, life, map[string]string{
			"PENDING": "PENDING", "RUNNING": "PENDING", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "WAITING",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
		{"time past the interaction", task.Ticked{}, time.Hour, map[string]string{
			"PENDING": "PENDING", "RUNNING": "PENDING", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "PENDING",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
		{"time past the deadline", task.Ticked{}, 3 * time.Hour, map[string]string{
			"PENDING": "FAILED", "RUNNING": "FAILED", "RUNNING, CANCELLING": "CANCELLED", "WAITING": "FAILED",
			"COMPLETED": "COMPLETED", "FAILED": "FAILED", "PARTIAL": "PARTIAL", "CANCELLED": "CANCELLED",
		}},
	}
	for _, e := range events {
		for name, before := range states(t) {
			t.Run(e.name+"/"+name, func(t *testing.T) {
				if before.Live() {
					before.Budget = task.Budget{Tokens: 100}
					before.Deadline = start.Add(2 * time.Hour)
				}
				got, d, err := task.Apply(before, e.event, start.Add(e.at), policy)
				outcome := got.State.String()
				if err != nil {
					outcome = errdefs.ReasonOf(err)
				}
				if want, ok := e.want[name]; !ok || outcome != want {
					t.Fatalf("got %s, want %s", outcome, want)
				}
				checkInvariants(t, before, got, d)
			})
		}
	}
}

// checkInvariants checks what holds after every event.
func checkInvariants(t testing.TB, before, got task.Task, d task.Decision) {
	t.Helper()
	if before.State.Terminal() && (got.State != before.State || d.Ended || d.Deliver || d.Ready) {
		t.Errorf("a task that had ended %s was changed to %s (%+v)", before.State, got.State, d)
	}
	if got.State.Terminal() != !got.EndTime.IsZero() {
		t.Errorf("state %s with end time %v", got.State, got.EndTime)
	}
	if (got.State == task.Running) != (got.Lease != task.Lease{}) {
		t.Errorf("state %s with lease %+v", got.State, got.Lease)
	}
	if got.Epoch < before.Epoch || (got.Epoch != before.Epoch) != (got.State == task.Running && before.State == task.Pending) {
		t.Errorf("epoch went from %d to %d on the way from %s to %s", before.Epoch, got.Epoch, before.State, got.State)
	}
	if d.Ended != (got.State.Terminal() && !before.State.Terminal()) || d.Deliver != d.Ended {
		t.Errorf("from %s to %s the decision is %+v", before.State, got.State, d)
	}
	if got.State == task.Completed && got.CancelAsked {
		t.Error("a task completed after a cancel was asked for")
	}
	if got.Attempts > got.MaxAttempts {
		t.Errorf("%d attempts of %d", got.Attempts, got.MaxAttempts)
	}
	if got.Live() && got.State != task.Waiting && !got.Ready() && got.WakeTime(policy).IsZero() {
		t.Errorf("stuck: state %s, and neither a worker nor time can move it", got.State)
	}
	if d.Changed && got.Revision != before.Revision+1 {
		t.Errorf("revision went from %d to %d", before.Revision, got.Revision)
	}
}

// TestDetails are rules that the table of states can't show.
func TestDetails(t *testing.T) {
	lease := task.Leased{Worker: "w", Life: life}
	apply := func(t *testing.T, one task.Task, e task.Event, at time.Duration) task.Task {
		t.Helper()
		got, _, err := task.Apply(one, e, start.Add(at), policy)
		if err != nil {
			t.Fatalf("%T: %v", e, err)
		}
		return got
	}

	t.Run("a lost worker uses up an attempt, and the last one ends the task", func(t *testing.T) {
		one := apply(t, after(t, lease), task.Ticked{}, life)
		if one.State != task.Pending || one.Fault.Reason != task.FaultWorkerLost || one.Attempts != 1 {
			t.Fatalf("after the first loss: %+v", one)
		}
		one = apply(t, apply(t, one, lease, life), task.Ticked{}, 2*life)
		if one.State != task.Failed || one.Fault.Reason != task.FaultWorkerLost || one.Attempts != 2 {
			t.Fatalf("after the second loss: state %s, %+v", one.State, one.Fault)
		}
	})
	t.Run("an expired lease is good until the sweep takes it", func(t *testing.T) {
		one := apply(t, after(t, lease), task.Renewed{By: holder}, 2*life)
		if want := start.Add(3 * life); one.State != task.Running || !one.Lease.Expire.Equal(want) {
			t.Fatalf("state %s until %v, want RUNNING until %v", one.State, one.Lease.Expire, want)
		}
	})
	t.Run("the wait between attempts doubles and is bounded", func(t *testing.T) {
		one := fresh()
		one.MaxAttempts, one.Backoff = 9, task.Backoff{Initial: time.Second, Max: 5 * time.Second}
		at := time.Duration(0)
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
			one = apply(t, one, lease, at)
			one = apply(t, one, task.Broke{By: task.Holder{Worker: "w", Token: int64(i + 1)}, Fault: task.Fault{Reason: "busy", Retryable: true}}, at)
			if got := one.NotBefore.Sub(start.Add(at)); got != want {
				t.Fatalf("wait %d is %s, want %s", i+1, got, want)
			}
			at = one.NotBefore.Sub(start)
			one = apply(t, one, task.Ticked{}, at)
		}
	})
	t.Run("a worker may ask for a longer wait, never for a shorter one", func(t *testing.T) {
		for _, tt := range []struct{ asked, want time.Duration }{{time.Millisecond, time.Second}, {time.Hour, time.Hour}} {
			one := apply(t, after(t, lease), task.Broke{By: holder, Fault: task.Fault{Reason: "429", Retryable: true}, RetryAfter: tt.asked}, 0)
			if got := one.NotBefore.Sub(start); got != tt.want {
				t.Errorf("asked for %s: waits %s, want %s", tt.asked, got, tt.want)
			}
		}
	})
	t.Run("going on after a wait or a release is no new attempt", func(t *testing.T) {
		one := after(t, lease, task.Suspended{By: holder, For: interaction("i1")}, task.Answered{Answers: []task.Answer{{InteractionID: "i1", Decision: "approve"}}}, lease)
		if one.Attempts != 1 || !one.Lease.Resumed || one.Epoch != 2 {
			t.Errorf("after a wait: attempts %d, resumed %v, token %d", one.Attempts, one.Lease.Resumed, one.Epoch)
		}
		one = apply(t, after(t, lease, task.Renewed{By: holder, Release: true}), lease, 0)
		if one.Attempts != 1 || !one.Lease.Resumed {
			t.Errorf("after a release: attempts %d, resumed %v", one.Attempts, one.Lease.Resumed)
		}
	})
	t.Run("the first answer counts, and the same again changes nothing", func(t *testing.T) {
		one := after(t, lease, task.Suspended{By: holder, For: task.WaitingFor{Interactions: []task.Interaction{{ID: "a"}, {ID: "b"}}}})
		yes := task.Answered{Answers: []task.Answer{{InteractionID: "a", Decision: "approve"}}}
		one = apply(t, one, yes, 0)
		if one.State != task.Waiting {
			t.Fatalf("one of two answered: %s", one.State)
		}
		again := apply(t, one, yes, time.Second)
		if diff := cmp.Diff(one, again); diff != "" {
			t.Errorf("the same answer again (-before +after):\n%s", diff)
		}
		_, _, err := task.Apply(one, task.Answered{Answers: []task.Answer{{InteractionID: "a", Decision: "deny"}}}, start, policy)
		if errdefs.ReasonOf(err) != task.ReasonInteractionClosed {
			t.Errorf("another answer: %v", err)
		}
	})
	t.Run("all answers of a call or none", func(t *testing.T) {
		one := after(t, lease, task.Suspended{By: holder, For: interaction("i1")})
		got, _, err := task.Apply(one, task.Answered{Answers: []task.Answer{{InteractionID: "i1", Decision: "approve"}, {InteractionID: "nope", Decision: "approve"}}}, start, policy)
		if errdefs.ReasonOf(err) != task.ReasonInteractionNotFound || got.State != task.Waiting || len(got.Answers) != 0 {
			t.Errorf("state %s, answers %v, error %v", got.State, got.Answers, err)
		}
	})
	t.Run("an interaction that nobody answered expires", func(t *testing.T) {
		one := apply(t, after(t, lease, task.Suspended{By: holder, For: interaction("i1")}), task.Ticked{}, time.Hour)
		if one.State != task.Pending || len(one.Answers) != 1 || one.Answers[0].Decision != task.DecisionExpired {
			t.Errorf("state %s, answers %+v", one.State, one.Answers)
		}
	})
	t.Run("a child that ended before the suspension is not missed", func(t *testing.T) {
		one := after(t, lease, task.ChildEnded{}, task.Suspended{By: holder, For: task.WaitingFor{OnChild: true}})
		if one.State != task.Pending {
			t.Errorf("state %s, want PENDING", one.State)
		}
		one = apply(t, after(t, lease, task.Suspended{By: holder, For: task.WaitingFor{OnChild: true}}), task.ChildEnded{}, 0)
		if one.State != task.Pending {
			t.Errorf("child after the suspension: state %s, want PENDING", one.State)
		}
	})
	t.Run("a suspension that waits for nothing is refused", func(t *testing.T) {
		_, _, err := task.Apply(after(t, lease), task.Suspended{By: holder}, start, policy)
		if errdefs.ReasonOf(err) != task.ReasonNothingToWaitFor {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a run that says nothing is not complete", func(t *testing.T) {
		one := after(t, lease)
		one.Kind = task.KindAgentRun
		for _, r := range []*task.Result{nil, {}, {Text: " \n"}} {
			if _, _, err := task.Apply(one, task.Finished{By: holder, Result: r}, start, policy); errdefs.ReasonOf(err) != task.ReasonResultEmpty {
				t.Errorf("result %+v: error %v", r, err)
			}
		}
	})
	t.Run("a worker that does not stop is ended after the grace time", func(t *testing.T) {
		one := after(t, lease, task.CancelAsked{})
		for at := time.Second; at < policy.CancelGrace; at += time.Second {
			one = apply(t, apply(t, one, task.Renewed{By: holder}, at), task.Ticked{}, at)
		}
		if one.State != task.Running {
			t.Fatalf("before the grace time: %s", one.State)
		}
		one = apply(t, one, task.Ticked{}, policy.CancelGrace)
		if one.State != task.Cancelled || one.Fault.Reason != task.FaultCancelForced {
			t.Errorf("state %s, reason %s", one.State, one.Fault.Reason)
		}
	})
	t.Run("the call that ended a task can be repeated, another one can't", func(t *testing.T) {
		finish := task.Finished{By: holder, Call: []byte("same"), Result: &task.Result{Text: "done"}}
		one := apply(t, after(t, lease), finish, 0)
		again, d, err := task.Apply(one, finish, start.Add(time.Hour), policy)
		if err != nil || d.Changed || again.Revision != one.Revision {
			t.Errorf("repeat: %+v, %v", d, err)
		}
		finish.Call = []byte("other")
		if _, _, err := task.Apply(one, finish, start, policy); errdefs.ReasonOf(err) != task.ReasonEnded {
			t.Errorf("other call: %v", err)
		}
	})
	t.Run("totals of progress never fall", func(t *testing.T) {
		one := apply(t, after(t, lease), task.Renewed{By: holder, Progress: &task.Progress{Steps: 5, Tokens: 100, Message: "a"}}, time.Second)
		one = apply(t, one, task.Renewed{By: holder, Progress: &task.Progress{Steps: 2, Tokens: 150, Message: "b"}}, 2*time.Second)
		want := task.Progress{Steps: 5, Tokens: 150, Message: "b", Time: start.Add(2 * time.Second)}
		if diff := cmp.Diff(want, one.Progress); diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	})
	t.Run("a renewal without news is not told to watchers", func(t *testing.T) {
		_, d, err := task.Apply(after(t, lease), task.Renewed{By: holder}, start.Add(time.Second), policy)
		if err != nil || !d.Changed || d.Notable {
			t.Errorf("decision %+v, %v", d, err)
		}
	})
	t.Run("failure and cancel end what is below, success does not", func(t *testing.T) {
		for _, tt := range []struct {
			event task.Event
			want  bool
		}{
			{task.Finished{By: holder, Result: &task.Result{Text: "x"}}, false},
			{task.Broke{By: holder, Fault: task.Fault{Reason: "cut"}, Partial: &task.Result{Text: "x"}}, false},
			{task.Broke{By: holder, Fault: task.Fault{Reason: "boom"}}, true},
			{task.CancelAsked{}, true},
		} {
			if _, d, err := task.Apply(after(t, lease), tt.event, start, policy); err != nil || d.EndChildren != tt.want {
				t.Errorf("%T: end children %v, want %v (%v)", tt.event, d.EndChildren, tt.want, err)
			}
		}
	})
}

// FuzzInterleavings plays any sequence of events, also of workers that lost their lease, against one task, and checks the invariants after each.
func FuzzInterleavings(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{0, 12, 0, 12, 0, 12})
	f.Add([]byte{0, 8, 9, 0, 5})
	f.Add([]byte{0, 7, 0x43, 12, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		one, now := fresh(), start
		one.Deadline = start.Add(time.Hour)
		var ends []task.State
		for i, step := range script[:min(len(script), 200)] {
			// The high bits choose how much time passes and whose token is used: the present one or the one before.
			now = now.Add(time.Duration(step>>6) * 3 * time.Second)
			by := task.Holder{Worker: "w", Token: one.Epoch - int64(step>>5&1)}
			next, d, err := task.Apply(one, event(step&0x1f%13, by, i), now, policy)
			if err != nil && d != (task.Decision{}) {
				t.Fatalf("step %d: refused and decided %+v", i, d)
			}
			checkInvariants(t, one, next, d)
			if by.Token != one.Epoch && err == nil && d.Changed && slices.Contains([]byte{1, 2, 3, 4, 5, 6, 7}, step&0x1f%13) {
				t.Fatalf("step %d: a worker with token %d changed a task whose lease has token %d", i, by.Token, one.Epoch)
			}
			if d.Ended {
				ends = append(ends, next.State)
			}
			one = next
		}
		if len(ends) > 1 {
			t.Fatalf("the task ended %d times: %v", len(ends), ends)
		}
		// Whatever happened, time alone brings every task that waits for no worker to an end: nothing is stuck.
		for range 1000 {
			wake := one.WakeTime(policy)
			if wake.IsZero() {
				break
			}
			one, _, _ = task.Apply(one, task.Ticked{}, wake, policy)
		}
		if one.Live() {
			t.Fatalf("never ends: state %s", one.State)
		}
	})
}

func event(kind byte, by task.Holder, i int) task.Event {
	call := []byte{byte(i)}
	switch kind {
	case 0:
		return task.Leased{Worker: "w", Life: life}
	case 1:
		return task.Renewed{By: by, Progress: &task.Progress{Steps: int64(i)}}
	case 2:
		return task.Finished{By: by, Call: call, Result: &task.Result{Text: "x"}}
	case 3:
		return task.Broke{By: by, Call: call, Fault: task.Fault{Reason: "boom"}}
	case 4:
		return task.Broke{By: by, Call: call, Fault: task.Fault{Reason: "busy", Retryable: true}}
	case 5:
		return task.Broke{By: by, Call: call, Fault: task.Fault{Reason: "cut"}, Partial: &task.Result{Text: "x"}}
	case 6:
		return task.Suspended{By: by, Call: call, For: interaction("i1")}
	case 7:
		return task.Renewed{By: by, Release: true}
	case 8:
		return task.Suspended{By: by, Call: call, For: task.WaitingFor{OnChild: true}}
	case 9:
		return task.Answered{Answers: []task.Answer{{InteractionID: "i1", Decision: "approve"}}}
	case 10:
		return task.CancelAsked{}
	case 11:
		return task.ChildEnded{}
	}
	return task.Ticked{}
}
