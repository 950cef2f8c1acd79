package tasktest

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

const (
	pending   = taskv1.TaskState_TASK_STATE_PENDING
	running   = taskv1.TaskState_TASK_STATE_RUNNING
	waiting   = taskv1.TaskState_TASK_STATE_WAITING
	completed = taskv1.TaskState_TASK_STATE_COMPLETED
	failed    = taskv1.TaskState_TASK_STATE_FAILED
	cancelled = taskv1.TaskState_TASK_STATE_CANCELLED
	partial   = taskv1.TaskState_TASK_STATE_PARTIAL
)

func ends(t testkit.T, s *suite) {
	t.Run("a result comes back as it was given", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		data, err := structpb.NewStruct(map[string]any{"n": 1.5, "list": []any{"a", nil}})
		if err != nil {
			t.Fatal(err)
		}
		r := completion(s.lease(t, "w", queue, time.Minute), "text 日本")
		r.Result = &taskv1.TaskResult{
			Text: "text 日本", Data: data, Truncated: true, FullTextPath: "large/x.txt", FullTextBlobSha256: strings.Repeat("ab", 32), FullTextBytes: 1 << 20,
		}
		if _, err := s.CompleteTask(worker(t), r); err != nil {
			t.Fatal(err)
		}
		got := s.get(t, ctx, made.GetId())
		if !proto.Equal(got.GetResult(), r.GetResult()) || got.GetState() != completed || got.GetEndTime() == nil || got.GetError() != nil || got.GetLease() != nil {
			t.Errorf("task %v", got)
		}
	})
	t.Run("the call can be repeated, and no other ends it again", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		for range 3 {
			out, err := s.CompleteTask(worker(t), completion(leased, "once"))
			if err != nil || out.GetTask().GetState() != completed {
				t.Fatalf("CompleteTask: %v, %v", out, err)
			}
		}
		_, err := s.CompleteTask(worker(t), completion(leased, "twice"))
		refused(t, "another result", err, errdefs.ErrFailedPrecondition, "TASK_ENDED")
		_, err = s.FailTask(worker(t), failure(leased, "late", false))
		refused(t, "a failure after the end", err, errdefs.ErrFailedPrecondition, "TASK_ENDED")
		if got := s.get(t, ctx, made.GetId()); got.GetResult().GetText() != "once" {
			t.Errorf("result %v", got.GetResult())
		}
	})
	t.Run("effect ids of workers are honoured", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		once := withEffect(worker(t), effect.Random(time.Now()))
		first, err := s.FailTask(once, failure(leased, "busy", true))
		if err != nil || first.GetTask().GetState() != pending {
			t.Fatalf("FailTask: %v, %v", first, err)
		}
		s.lease(t, "w2", queue, time.Minute)
		again, err := s.FailTask(once, failure(leased, "busy", true))
		if err != nil || again.GetTask().GetState() != pending {
			t.Errorf("repeat after another lease: %v, %v", again, err)
		}
		_, err = s.FailTask(once, failure(leased, "boom", false))
		refused(t, "another request", err, errdefs.ErrAborted, "EFFECT_MISMATCH")
	})
	t.Run("failures: for good, with output, and to be tried again", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		if _, err := s.FailTask(worker(t), failure(s.lease(t, "w", queue, time.Minute), "boom", false)); err != nil {
			t.Fatal(err)
		}
		if got := s.get(t, ctx, made.GetId()); got.GetState() != failed || got.GetError().GetReason() != "boom" || got.GetError().GetMessage() != "it boom" {
			t.Errorf("task %v", got)
		}

		made = s.create(t, ctx, job(queue))
		r := failure(s.lease(t, "w", queue, time.Minute), "max_steps", false)
		r.PartialResult = &taskv1.TaskResult{Text: "half"}
		if _, err := s.FailTask(worker(t), r); err != nil {
			t.Fatal(err)
		}
		if got := s.get(t, ctx, made.GetId()); got.GetState() != partial || got.GetResult().GetText() != "half" || got.GetError().GetReason() != "max_steps" {
			t.Errorf("task %v", got)
		}

		again := job(queue)
		again.MaxAttempts, again.Backoff = 2, &taskv1.Backoff{Initial: durationpb.New(50 * time.Millisecond), Max: durationpb.New(time.Second)}
		made = s.create(t, ctx, again)
		for attempt := range int32(2) {
			leased := s.lease(t, "w", queue, time.Minute)
			if leased.GetAttempts() != attempt+1 {
				t.Errorf("attempt %d, want %d", leased.GetAttempts(), attempt+1)
			}
			if _, err := s.FailTask(worker(t), failure(leased, "429", true)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.get(t, ctx, made.GetId()); got.GetState() != failed || got.GetAttempts() != 2 || !got.GetError().GetRetryable() {
			t.Errorf("task %v", got)
		}
	})
	t.Run("a run that says nothing is not complete", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.Kind = "agent_run"
		s.create(t, ctx, r)
		leased := s.lease(t, "w", queue, time.Minute)
		for _, text := range []string{"", " \n\t"} {
			_, err := s.CompleteTask(worker(t), completion(leased, text))
			refused(t, "an empty result", err, errdefs.ErrInvalidArgument, "RESULT_EMPTY")
		}
	})
	t.Run("a result that is too large is refused and the task stays", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		_, err := s.CompleteTask(worker(t), completion(leased, strings.Repeat("x", 65537)))
		refused(t, "a text over the limit", err, errdefs.ErrInvalidArgument, "")
		r := completion(leased, strings.Repeat("x", 65000))
		r.Result.FullTextPath = strings.Repeat("p", 4096)
		_, err = s.CompleteTask(worker(t), r)
		refused(t, "a message over the limit", err, errdefs.ErrInvalidArgument, "TOO_LARGE")
		if got := s.get(t, ctx, made.GetId()); got.GetState() != running {
			t.Errorf("state %s", got.GetState())
		}
	})
}

// enforced is what the server does whatever workers do.
func enforced(t testkit.T, s *suite) {
	t.Run("a deadline ends a task whose worker goes on for ever", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.Timeout = durationpb.New(time.Second)
		made := s.create(t, ctx, r)
		leased := s.lease(t, "w", queue, time.Minute)
		beat := &taskv1.Heartbeat{TaskId: made.GetId(), FencingToken: leased.GetLease().GetFencingToken()}
		var last *taskv1.HeartbeatResult
		testkit.Eventually(t, soon, func() error {
			if last = s.beat(t, "w", beat); last.GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST {
				return errStillRunning
			}
			return nil
		})
		if last.GetState() != failed || last.GetReason() != "DEADLINE_EXCEEDED" {
			t.Errorf("the worker is told %v", last)
		}
		got := s.get(t, ctx, made.GetId())
		if over := got.GetEndTime().AsTime().Sub(got.GetDeadlineTime().AsTime()); got.GetError().GetReason() != "DEADLINE_EXCEEDED" || over < 0 || over > time.Second {
			t.Errorf("ended %s after the deadline: %v", over, got.GetError())
		}
		_, err := s.CompleteTask(worker(t), completion(leased, "late"))
		refused(t, "a late result", err, errdefs.ErrFailedPrecondition, "TASK_ENDED")
	})
	t.Run("a deadline ends a task that nobody took", func(t testkit.T) {
		ctx, r := as(t, unique("ana"), ""), job(unique("q"))
		r.Timeout = durationpb.New(300 * time.Millisecond)
		s.state(t, ctx, s.create(t, ctx, r).GetId(), failed)
	})
	t.Run("workers that vanish use the attempts up", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.MaxAttempts = 2
		made := s.create(t, ctx, r)
		s.lease(t, "w1", queue, 500*time.Millisecond)
		s.lease(t, "w2", queue, 500*time.Millisecond)
		if got := s.state(t, ctx, made.GetId(), failed); got.GetError().GetReason() != "WORKER_LOST" {
			t.Errorf("error %v", got.GetError())
		}
	})
	t.Run("a budget ends a task", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.Budget = &taskv1.Budget{Tokens: 5000, Steps: 10}
		made := s.create(t, ctx, r)
		leased := s.lease(t, "w", queue, time.Minute)
		for _, tt := range []struct {
			tokens int64
			want   taskv1.HeartbeatOutcome
		}{{5000, taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RENEWED}, {5001, taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST}} {
			r := s.beat(t, "w", &taskv1.Heartbeat{TaskId: made.GetId(), FencingToken: leased.GetLease().GetFencingToken(), Progress: &taskv1.Progress{Tokens: tt.tokens}})
			if r.GetOutcome() != tt.want {
				t.Errorf("%d tokens: %v, want %s", tt.tokens, r, tt.want)
			}
		}
		if got := s.get(t, ctx, made.GetId()); got.GetState() != failed || got.GetError().GetReason() != "BUDGET_EXCEEDED" {
			t.Errorf("task %v", got)
		}
	})
}

func cancels(t testkit.T, s *suite) {
	t.Run("a task that has ended stays as it is", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		for _, want := range []taskv1.TaskState{completed, failed, cancelled} {
			made := s.create(t, ctx, job(queue))
			switch want {
			case completed:
				if _, err := s.CompleteTask(worker(t), completion(s.lease(t, "w", queue, time.Minute), "kept")); err != nil {
					t.Fatal(err)
				}
			case failed:
				if _, err := s.FailTask(worker(t), failure(s.lease(t, "w", queue, time.Minute), "boom", false)); err != nil {
					t.Fatal(err)
				}
			default:
				if _, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: made.GetId()}); err != nil {
					t.Fatal(err)
				}
			}
			before := s.get(t, ctx, made.GetId())
			for range 2 {
				out, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: made.GetId()})
				if err != nil || !out.GetStopped() || out.GetRequested() != (want == cancelled) {
					t.Errorf("cancel of a %s task: %v, %v", want, out, err)
				}
			}
			if after := s.get(t, ctx, made.GetId()); !proto.Equal(before, after) || after.GetState() != want {
				t.Errorf("the task was changed from %v to %v", before, after)
			}
		}
	})
	t.Run("requested and stopped are two facts", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		out, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: made.GetId(), Reason: "changed my mind"})
		if err != nil || !out.GetRequested() || out.GetStopped() || out.GetTask().GetState() != running {
			t.Fatalf("CancelTask: %v, %v", out, err)
		}
		r := s.beat(t, "w", &taskv1.Heartbeat{TaskId: made.GetId(), FencingToken: leased.GetLease().GetFencingToken()})
		if r.GetOutcome() != taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RENEWED || !r.GetCancelRequested() {
			t.Errorf("the worker is told %v", r)
		}
		if _, err := s.FailTask(worker(t), failure(leased, "stopped", true)); err != nil {
			t.Fatal(err)
		}
		got := s.get(t, ctx, made.GetId())
		if got.GetState() != cancelled || !got.GetCancelRequested() || got.GetError().GetMessage() != "changed my mind" {
			t.Errorf("task %v", got)
		}
		if leased, err := s.LeaseTasks(worker(t), offer("w", queue)); err != nil || len(leased.GetTasks()) != 0 {
			t.Errorf("stopped does not stay stopped: %v, %v", leased, err)
		}
	})
	t.Run("after a cancel a task never completes", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		if _, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: made.GetId()}); err != nil {
			t.Fatal(err)
		}
		out, err := s.CompleteTask(worker(t), completion(leased, "too late"))
		if err != nil || out.GetTask().GetState() != cancelled {
			t.Errorf("CompleteTask: %v, %v", out, err)
		}
		if got := s.get(t, ctx, made.GetId()); got.GetState() != cancelled || got.GetResult().GetText() != "too late" {
			t.Errorf("task %v", got)
		}
	})
	t.Run("a cancelled task whose worker is gone is stopped", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		s.lease(t, "w", queue, 500*time.Millisecond)
		if _, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: made.GetId()}); err != nil {
			t.Fatal(err)
		}
		s.state(t, ctx, made.GetId(), cancelled)
	})
	t.Run("everything below ends too", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		root := s.create(t, ctx, job(queue))
		s.lease(t, "w", queue, time.Minute)
		below := job(queue)
		below.ParentTaskId = root.GetId()
		child := s.create(t, ctx, below)
		below.ParentTaskId = child.GetId()
		grandchild := s.create(t, ctx, below)
		out, err := s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: root.GetId()})
		if err != nil || out.GetDescendantsRequested() != 2 || out.GetDescendantsStopped() != 2 {
			t.Errorf("CancelTask: %v, %v", out, err)
		}
		for _, id := range []string{child.GetId(), grandchild.GetId()} {
			if got := s.get(t, ctx, id); got.GetState() != cancelled || got.GetError().GetReason() != "PARENT_ENDED" {
				t.Errorf("below: %v", got)
			}
		}
		below.ParentTaskId = root.GetId()
		_, err = s.CreateTask(ctx, below)
		refused(t, "a child of what is to end", err, errdefs.ErrFailedPrecondition, "PARENT_ENDED")
	})
	t.Run("a failed task takes its children with it, a completed one does not", func(t testkit.T) {
		for _, ok := range []bool{true, false} {
			queue, ctx := unique("q"), as(t, unique("ana"), "")
			parent := s.create(t, ctx, job(queue))
			leased := s.lease(t, "w", queue, time.Minute)
			below := job(queue)
			below.ParentTaskId = parent.GetId()
			child := s.create(t, ctx, below)
			want, err := cancelled, error(nil)
			if ok {
				want = pending
				_, err = s.CompleteTask(worker(t), completion(leased, "x"))
			} else {
				_, err = s.FailTask(worker(t), failure(leased, "boom", false))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.get(t, ctx, child.GetId()); got.GetState() != want {
				t.Errorf("parent completed: %v; child %s, want %s", ok, got.GetState(), want)
			}
		}
	})
}

func interactions(t testkit.T, s *suite) {
	suspend := func(t testkit.T, leased *taskv1.Task, w *taskv1.Waiting) *taskv1.Task {
		t.Helper()
		out, err := s.SuspendTask(worker(t), &taskv1.SuspendTaskRequest{
			TaskId: leased.GetId(), WorkerId: leased.GetLease().GetWorkerId(), FencingToken: leased.GetLease().GetFencingToken(), Waiting: w,
		})
		if err != nil {
			t.Fatalf("SuspendTask: %v", err)
		}
		return out.GetTask()
	}
	ask := func(ids ...string) *taskv1.Waiting {
		w := &taskv1.Waiting{}
		for _, id := range ids {
			w.Interactions = append(w.Interactions, &threadv1.Interaction{Id: id, Kind: "approval", Prompt: "may I " + id + "?"})
		}
		return w
	}
	answer := func(id, decision string) *taskv1.InteractionAnswer {
		return &taskv1.InteractionAnswer{InteractionId: id, Decision: decision}
	}
	t.Run("a task waits for approval, and goes on with the answer", func(t testkit.T) {
		user, queue := unique("ana"), unique("q")
		ctx := as(t, user, "")
		made := s.create(t, ctx, job(queue))
		old := s.lease(t, "w", queue, time.Minute)
		suspend(t, old, ask("rm", "push"))
		got := s.get(t, ctx, made.GetId())
		if got.GetState() != waiting || got.GetLease() != nil || len(got.GetWaiting().GetInteractions()) != 2 || got.GetWaiting().GetInteractions()[0].GetPrompt() != "may I rm?" {
			t.Fatalf("task %v", got)
		}
		_, err := s.CompleteTask(worker(t), completion(old, "x"))
		refused(t, "the worker that gave it up", err, errdefs.ErrAborted, "LEASE_LOST")

		respond := func(answers ...*taskv1.InteractionAnswer) (*taskv1.RespondTaskResponse, error) {
			return s.RespondTask(ctx, &taskv1.RespondTaskRequest{TaskId: made.GetId(), Answers: answers})
		}
		_, err = respond(answer("rm", "approve"), answer("nope", "approve"))
		refused(t, "an unknown interaction", err, errdefs.ErrNotFound, "INTERACTION_NOT_FOUND")
		if out, err := respond(answer("rm", "approve")); err != nil || out.GetTask().GetState() != waiting {
			t.Errorf("one of two: %v, %v", out, err)
		}
		if _, err := respond(answer("rm", "approve")); err != nil {
			t.Errorf("the same again: %v", err)
		}
		_, err = respond(answer("rm", "deny"))
		refused(t, "another answer", err, errdefs.ErrFailedPrecondition, "INTERACTION_CLOSED")
		if out, err := respond(answer("push", "deny")); err != nil || out.GetTask().GetState() != pending {
			t.Errorf("the last one: %v, %v", out, err)
		}
		next := s.lease(t, "w2", queue, time.Minute)
		if !next.GetLease().GetResumed() || next.GetAttempts() != 1 || len(next.GetAnswers()) != 2 || next.GetAnswers()[1].GetDecision() != "deny" || next.GetAnswers()[0].GetActor() != user {
			t.Errorf("resumed task %v", next)
		}
	})
	t.Run("time and children end a wait as well", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		suspend(t, s.lease(t, "w", queue, time.Minute), &taskv1.Waiting{ResumeTime: timestamppb.New(time.Now().Add(300 * time.Millisecond))})
		again := s.lease(t, "w", queue, time.Minute)
		if again.GetId() != made.GetId() {
			t.Errorf("leased %v", again)
		}
		below := job(unique("q"))
		below.ParentTaskId = made.GetId()
		s.create(t, ctx, below)
		if got := suspend(t, again, &taskv1.Waiting{ResumeOnChild: true}); got.GetState() != waiting {
			t.Errorf("with a child: %s", got.GetState())
		}
		if _, err := s.CompleteTask(worker(t), completion(s.lease(t, "w", below.GetQueue(), time.Minute), "x")); err != nil {
			t.Fatal(err)
		}
		again = s.lease(t, "w", queue, time.Minute)
		if got := suspend(t, again, &taskv1.Waiting{ResumeOnChild: true}); got.GetState() != pending {
			t.Errorf("waiting for a child without having one: %s, want PENDING", got.GetState())
		}
	})
	t.Run("an interaction that nobody answers expires", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		s.create(t, ctx, job(queue))
		w := ask("rm")
		w.Interactions[0].ExpireTime = timestamppb.New(time.Now().Add(300 * time.Millisecond))
		suspend(t, s.lease(t, "w", queue, time.Minute), w)
		if again := s.lease(t, "w", queue, time.Minute); len(again.GetAnswers()) != 1 || again.GetAnswers()[0].GetDecision() != "expired" {
			t.Errorf("answers %v", again.GetAnswers())
		}
	})
	t.Run("bad suspensions and answers", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		made := s.create(t, ctx, job(queue))
		leased := s.lease(t, "w", queue, time.Minute)
		for what, w := range map[string]*taskv1.Waiting{"for nothing": {}, "for the same twice": ask("a", "a"), "for one without id": ask("")} {
			if _, err := s.SuspendTask(worker(t), &taskv1.SuspendTaskRequest{TaskId: made.GetId(), WorkerId: "w", FencingToken: leased.GetLease().GetFencingToken(), Waiting: w}); err == nil {
				t.Errorf("a suspension %s was accepted", what)
			}
		}
		_, err := s.RespondTask(ctx, &taskv1.RespondTaskRequest{TaskId: made.GetId(), Answers: []*taskv1.InteractionAnswer{answer("a", "expired")}})
		refused(t, "a decision that only the server takes", err, errdefs.ErrInvalidArgument, "")
	})
}
