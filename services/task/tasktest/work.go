package tasktest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func creation(t testkit.T, s *suite) {
	t.Run("a task is kept whole, with the identity of the call", func(t testkit.T) {
		user, queue := unique("ana"), unique("q")
		id := identity.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: "s/1", Scope: identity.ScopeAgent}
		ctx := with(t, id)
		r := job(queue)
		r.Kind, r.Label, r.Capability, r.Priority, r.MaxAttempts = "agent_run", "review", "sandbox", 2, 5
		r.ParentThread = &commonv1.Thread{Agent: "coder", User: user, Session: "s/1"}
		r.ChildThread = &commonv1.Thread{Agent: "reviewer", User: user, Session: "child"}
		r.Budget = &taskv1.Budget{Tokens: 100}
		r.Timeout = durationpb.New(time.Hour)
		r.Annotations = map[string]string{"k": "v"}
		made := s.create(t, ctx, r)
		got := s.get(t, ctx, made.GetId())
		want := &commonv1.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: "s/1", Scope: commonv1.Scope_SCOPE_AGENT}
		if g := got.GetIdentity(); g.String() != want.String() {
			t.Errorf("identity %v, want %v", g, want)
		}
		if got.GetBucket() != "default/agent/coder" {
			t.Errorf("bucket %q", got.GetBucket())
		}
		if got.GetState() != taskv1.TaskState_TASK_STATE_PENDING || got.GetKind() != "agent_run" || got.GetLabel() != "review" || got.GetCapability() != "sandbox" ||
			got.GetPriority() != 2 || got.GetMaxAttempts() != 5 || got.GetInput().GetText() != "work" || got.GetBudget().GetTokens() != 100 ||
			got.GetAnnotations()["k"] != "v" || got.GetDeliveryMode() != taskv1.DeliveryMode_DELIVERY_MODE_QUEUE || got.GetRootTaskId() != got.GetId() {
			t.Errorf("task %v", got)
		}
		if got.GetParentThread().GetSession() != "s/1" || got.GetParentThread().GetTenant() != identity.DefaultTenant || got.GetChildThread().GetAgent() != "reviewer" {
			t.Errorf("threads %v, %v", got.GetParentThread(), got.GetChildThread())
		}
		if life := got.GetDeadlineTime().AsTime().Sub(got.GetCreateTime().AsTime()); life != time.Hour {
			t.Errorf("the deadline is %s after the creation", life)
		}
		if made.GetInput() != nil || got.GetLease() != nil || got.GetResult() != nil || got.GetError() != nil {
			t.Error("there is more in the answers than they promise")
		}
	})
	t.Run("without an identity nothing is kept", func(t testkit.T) {
		_, err := s.CreateTask(as(t, "", ""), job(unique("q")))
		refused(t, "anonymous without a session", err, errdefs.ErrInvalidArgument, "IDENTITY_REQUIRED")
	})
	t.Run("idempotent by request id", func(t testkit.T) {
		ctx, r := as(t, unique("ana"), ""), job(unique("q"))
		r.RequestId = "r1"
		first := s.create(t, ctx, r)
		again, err := s.CreateTask(ctx, r)
		if err != nil || !again.GetDuplicate() || again.GetTask().GetId() != first.GetId() {
			t.Errorf("again: %v, %v", again, err)
		}
		other := job(r.GetQueue())
		other.RequestId, other.Label = "r1", "other"
		_, err = s.CreateTask(ctx, other)
		refused(t, "another request", err, errdefs.ErrAborted, "REQUEST_MISMATCH")
		if theirs := s.create(t, as(t, unique("bob"), ""), r); theirs.GetId() == first.GetId() {
			t.Error("two users share a request id")
		}
	})
	t.Run("idempotent by effect id, also at once", func(t testkit.T) {
		ctx, r := as(t, unique("ana"), ""), job(unique("q"))
		id := effect.Random(time.Now())
		var (
			mu  sync.Mutex
			ids = map[string]int{}
			wg  sync.WaitGroup
		)
		for range 6 {
			wg.Go(func() {
				made, err := s.CreateTask(withEffect(ctx, id), r)
				if err != nil {
					t.Errorf("CreateTask: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[made.GetTask().GetId()]++
			})
		}
		wg.Wait()
		if len(ids) != 1 {
			t.Errorf("one effect made the tasks %v", ids)
		}
		r.Label = "other"
		_, err := s.CreateTask(withEffect(ctx, id), r)
		refused(t, "another request", err, errdefs.ErrAborted, "EFFECT_MISMATCH")
		_, err = s.CreateTask(withEffect(ctx, effect.Random(time.Now().Add(-6*24*time.Hour-time.Hour))), r)
		refused(t, "an old effect", err, errdefs.ErrFailedPrecondition, "EFFECT_EXPIRED")
		_, err = s.CreateTask(withEffect(ctx, "no effect id"), r)
		refused(t, "no effect id", err, errdefs.ErrInvalidArgument, "EFFECT_MALFORMED")
	})
	t.Run("bad requests", func(t testkit.T) {
		user := unique("ana")
		big := strings.Repeat("x", 65000)
		tests := map[string]struct {
			change func(*taskv1.CreateTaskRequest)
			class  error
			reason string
		}{
			"no kind":                {func(r *taskv1.CreateTaskRequest) { r.Kind = "" }, errdefs.ErrInvalidArgument, ""},
			"a kind in capitals":     {func(r *taskv1.CreateTaskRequest) { r.Kind = "Job" }, errdefs.ErrInvalidArgument, ""},
			"a text over 64 KiB":     {func(r *taskv1.CreateTaskRequest) { r.Input.Text = strings.Repeat("x", 65537) }, errdefs.ErrInvalidArgument, ""},
			"an input over 64 KiB":   {func(r *taskv1.CreateTaskRequest) { r.Input.Text, r.Input.Bytes = big, []byte(big) }, errdefs.ErrInvalidArgument, "TOO_LARGE"},
			"a deadline in the past": {func(r *taskv1.CreateTaskRequest) { r.DeadlineTime = timestamppb.New(time.Now().Add(-time.Hour)) }, errdefs.ErrInvalidArgument, "TIME_INVALID"},
			"a deadline in 2 years":  {func(r *taskv1.CreateTaskRequest) { r.DeadlineTime = timestamppb.New(time.Now().Add(17520 * time.Hour)) }, errdefs.ErrInvalidArgument, "TIME_INVALID"},
			"a start in 2 years": {func(r *taskv1.CreateTaskRequest) {
				r.NotBeforeTime = timestamppb.New(time.Now().Add(17520 * time.Hour))
			}, errdefs.ErrInvalidArgument, "TIME_INVALID"},
			"priority 10":            {func(r *taskv1.CreateTaskRequest) { r.Priority = 10 }, errdefs.ErrInvalidArgument, ""},
			"delivery to nowhere":    {func(r *taskv1.CreateTaskRequest) { r.DeliveryMode = taskv1.DeliveryMode_DELIVERY_MODE_WAKE }, errdefs.ErrInvalidArgument, "THREAD_NOT_ALLOWED"},
			"an unknown parent":      {func(r *taskv1.CreateTaskRequest) { r.ParentTaskId = "t_none" }, errdefs.ErrNotFound, "PARENT_NOT_FOUND"},
			"a thread without agent": {func(r *taskv1.CreateTaskRequest) { r.ParentThread = &commonv1.Thread{Session: "s"} }, errdefs.ErrInvalidArgument, ""},
			"another user's mailbox": {func(r *taskv1.CreateTaskRequest) {
				r.ParentThread = &commonv1.Thread{Agent: "coder", User: "bob", Session: "s"}
			}, errdefs.ErrPermissionDenied, "THREAD_NOT_ALLOWED"},
			"another agent's mailbox": {func(r *taskv1.CreateTaskRequest) {
				r.ParentThread = &commonv1.Thread{Agent: "boss", User: user, Session: "s"}
			}, errdefs.ErrPermissionDenied, "THREAD_NOT_ALLOWED"},
			"another tenant's": {func(r *taskv1.CreateTaskRequest) {
				r.ParentThread = &commonv1.Thread{Tenant: "acme", Agent: "coder", User: user, Session: "s"}
			}, errdefs.ErrPermissionDenied, "THREAD_NOT_ALLOWED"},
			"work in another's thread": {func(r *taskv1.CreateTaskRequest) {
				r.ChildThread = &commonv1.Thread{Agent: "coder", User: "bob", Session: "s"}
			}, errdefs.ErrPermissionDenied, "THREAD_NOT_ALLOWED"},
		}
		for name, tt := range tests {
			t.Run(name, func(t testkit.T) {
				r := job(unique("q"))
				tt.change(r)
				_, err := s.CreateTask(as(t, user, ""), r)
				refused(t, "CreateTask", err, tt.class, tt.reason)
			})
		}
		if left, err := s.ListTasks(as(t, user, ""), &taskv1.ListTasksRequest{}); err != nil || len(left.GetTasks()) > 0 {
			t.Errorf("refused tasks were kept: %v, %v", left.GetTasks(), err)
		}
	})
	t.Run("tasks are nested so deeply and no deeper", func(t testkit.T) {
		ctx, queue := as(t, unique("ana"), ""), unique("q")
		parent := ""
		for depth := range 30 {
			r := job(queue)
			r.ParentTaskId = parent
			made, err := s.CreateTask(ctx, r)
			if err != nil {
				refused(t, fmt.Sprint("depth ", depth), err, errdefs.ErrFailedPrecondition, "DEPTH_EXCEEDED")
				return
			}
			if got := made.GetTask().GetDepth(); got != int32(depth) {
				t.Errorf("depth %d, want %d", got, depth)
			}
			parent = made.GetTask().GetId()
		}
		t.Error("30 levels were allowed")
	})
}

func leases(t testkit.T, s *suite) {
	t.Run("a worker that waits is woken by a task", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		got := make(chan time.Time, 1)
		go func() {
			o := offer("w", queue)
			o.MaxWait = durationpb.New(testTimeout)
			if leased, err := s.LeaseTasks(worker(t), o); err != nil || len(leased.GetTasks()) != 1 {
				t.Errorf("LeaseTasks: %v, %v", leased, err)
			}
			got <- time.Now()
		}()
		before := time.Now()
		s.create(t, ctx, job(queue))
		if took := (<-got).Sub(before); took > soon {
			t.Errorf("the worker had it after %s", took)
		}
	})
	t.Run("an empty queue answers in time, without error", func(t testkit.T) {
		o := offer("w", unique("q"))
		o.MaxWait = durationpb.New(200 * time.Millisecond)
		leased, err := s.LeaseTasks(worker(t), o)
		if err != nil || len(leased.GetTasks()) != 0 {
			t.Errorf("LeaseTasks: %v, %v", leased, err)
		}
	})
	t.Run("in batches, by priority, then by age, with input and a lease", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		for i := range 5 {
			r := job(queue)
			r.Label, r.Priority = fmt.Sprint(i), int32(i/3)
			s.create(t, ctx, r)
		}
		o := offer("w", queue)
		o.MaxTasks = 4
		leased, err := s.LeaseTasks(worker(t), o)
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, one := range leased.GetTasks() {
			labels = append(labels, one.GetLabel())
			if one.GetInput().GetText() != "work" || one.GetState() != taskv1.TaskState_TASK_STATE_RUNNING || one.GetAttempts() != 1 ||
				one.GetLease().GetWorkerId() != "w" || one.GetLease().GetFencingToken() == 0 || one.GetLease().GetResumed() {
				t.Errorf("task %v", one)
			}
		}
		if got := strings.Join(labels, " "); got != "3 4 0 1" {
			t.Errorf("order %s, want 3 4 0 1", got)
		}
	})
	t.Run("only to workers that offer what it needs", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.Capability = "sandbox"
		s.create(t, ctx, r)
		plain := offer("w", queue)
		if leased, err := s.LeaseTasks(worker(t), plain); err != nil || len(leased.GetTasks()) != 0 {
			t.Errorf("to a worker without: %v, %v", leased, err)
		}
		plain.Capabilities = []string{"browser", "sandbox"}
		if leased, err := s.LeaseTasks(worker(t), plain); err != nil || len(leased.GetTasks()) != 1 {
			t.Errorf("to a worker with: %v, %v", leased, err)
		}
	})
	t.Run("not before its time, and soon after", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.NotBeforeTime = timestamppb.New(time.Now().Add(700 * time.Millisecond))
		s.create(t, ctx, r)
		if leased, err := s.LeaseTasks(worker(t), offer("w", queue)); err != nil || len(leased.GetTasks()) != 0 {
			t.Errorf("before its time: %v, %v", leased, err)
		}
		leased := s.lease(t, "w", queue, 10*time.Second)
		if at := leased.GetStartTime().AsTime(); at.Before(r.GetNotBeforeTime().AsTime().Truncate(time.Microsecond)) {
			t.Errorf("begun at %v, before %v", at, r.GetNotBeforeTime().AsTime())
		}
	})
	t.Run("a worker that is gone loses its task within seconds, and is fenced", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		old := s.lease(t, "w1", queue, 500*time.Millisecond)
		current := s.lease(t, "w2", queue, 10*time.Second)
		if current.GetId() != made.GetId() || current.GetLease().GetFencingToken() <= old.GetLease().GetFencingToken() || !current.GetLease().GetResumed() {
			t.Fatalf("second lease %v", current)
		}
		_, err := s.CompleteTask(worker(t), completion(old, "stale"))
		refused(t, "the old worker's answer", err, errdefs.ErrAborted, "LEASE_LOST")
		_, err = s.FailTask(worker(t), failure(old, "stale", false))
		refused(t, "the old worker's failure", err, errdefs.ErrAborted, "LEASE_LOST")
		if r := s.beat(t, "w1", &taskv1.Heartbeat{TaskId: made.GetId(), FencingToken: old.GetLease().GetFencingToken()}); r.GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST {
			t.Errorf("the old worker's heartbeat: %v", r)
		}
		if _, err := s.CompleteTask(worker(t), completion(current, "good")); err != nil {
			t.Errorf("the present worker's answer: %v", err)
		}
		if got := s.get(t, ctx, made.GetId()); got.GetResult().GetText() != "good" || got.GetAttempts() != 2 {
			t.Errorf("result %v after %d attempts", got.GetResult(), got.GetAttempts())
		}
	})
	t.Run("the token of one task is none for another", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		s.create(t, ctx, job(queue))
		s.create(t, ctx, job(queue))
		a, b := s.lease(t, "w1", queue, 10*time.Second), s.lease(t, "w2", queue, 10*time.Second)
		stolen := completion(a, "stolen")
		stolen.TaskId = b.GetId()
		_, err := s.CompleteTask(worker(t), stolen)
		refused(t, "another worker's task", err, errdefs.ErrAborted, "LEASE_LOST")
	})
	t.Run("heartbeats keep a lease, report progress, and stand each for itself", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, 600*time.Millisecond)
		for step := range int64(6) {
			time.Sleep(200 * time.Millisecond) // the life of a worker is time that passes; three lives pass here
			out, err := s.HeartbeatTasks(worker(t), &taskv1.HeartbeatTasksRequest{WorkerId: "w", Heartbeats: []*taskv1.Heartbeat{
				{TaskId: "t_unknown", FencingToken: 1},
				{TaskId: made.GetId(), FencingToken: leased.GetLease().GetFencingToken(), Progress: &taskv1.Progress{Steps: step, Message: "step"},
					ChildThread: &commonv1.Thread{Agent: "reviewer", User: made.GetIdentity().GetUser(), Session: "c"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if out.GetResults()[0].GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST || out.GetResults()[1].GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RENEWED {
				t.Fatalf("results %v", out.GetResults())
			}
		}
		got := s.get(t, ctx, made.GetId())
		if got.GetState() != taskv1.TaskState_TASK_STATE_RUNNING || got.GetAttempts() != 1 || got.GetProgress().GetSteps() != 5 || got.GetProgress().GetMessage() != "step" ||
			got.GetChildThread().GetSession() != "c" {
			t.Errorf("task %v", got)
		}
	})
	t.Run("a lease can be given back without losing an attempt", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		if r := s.beat(t, "w", &taskv1.Heartbeat{TaskId: made.GetId(), FencingToken: leased.GetLease().GetFencingToken(), Release: true}); r.GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RELEASED {
			t.Errorf("result %v", r)
		}
		if again := s.lease(t, "w2", queue, time.Minute); again.GetAttempts() != 1 || !again.GetLease().GetResumed() {
			t.Errorf("attempts %d, resumed %v", again.GetAttempts(), again.GetLease().GetResumed())
		}
	})
	t.Run("many workers, each task once", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		const n, crew = 40, 6
		var (
			mu   sync.Mutex
			got  = map[string]int{}
			wg   sync.WaitGroup
			make = func() { s.create(t, ctx, job(queue)) }
		)
		for i := range crew {
			wg.Go(func() {
				for {
					o := offer(fmt.Sprint("w", i), queue)
					o.MaxTasks, o.MaxWait = 2, durationpb.New(time.Second)
					leased, err := s.LeaseTasks(worker(t), o)
					if err != nil || len(leased.GetTasks()) == 0 {
						if err != nil {
							t.Errorf("LeaseTasks: %v", err)
						}
						return
					}
					for _, one := range leased.GetTasks() {
						mu.Lock()
						got[one.GetId()]++
						twice := got[one.GetId()] > 1
						mu.Unlock()
						if twice {
							return
						}
						if _, err := s.CompleteTask(worker(t), completion(one, "x")); err != nil {
							t.Errorf("CompleteTask: %v", err)
						}
					}
				}
			})
		}
		for range n {
			make()
		}
		wg.Wait()
		for id, times := range got {
			if times > 1 {
				t.Errorf("%s was leased %d times", id, times)
			}
		}
		if len(got) != n {
			t.Errorf("%d tasks were leased, want %d", len(got), n)
		}
	})
}
