// Package tasktest is the black-box suite of gantry.task.v1.TaskService. It talks to a client only, so it runs against the service in memory, against a process, and against
// somebody else's implementation.
//
//	func TestTask(t *testing.T) { tasktest.Run(testkit.Wrap(t), connect) }
//
// The server must be in mode none, or let the calls of the connection act as any user and as a worker. The suite uses users and queues of its own, so it can run on
// a server that others use; it takes less than a minute.
package tasktest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Connect returns a connection that sends the identity of the context along and gives typed errors, as those of package client do.
type Connect func(tb testing.TB) grpc.ClientConnInterface

// Run runs the suite.
func Run(t testkit.T, connect Connect) {
	for name, topic := range map[string]func(testkit.T, *suite){
		"create": creation, "lease": leases, "end": ends, "limits": enforced, "cancel": cancels, "interactions": interactions,
		"wait": waits, "watch": watches, "list": listing, "isolation": isolation, "retry and purge": cleanup, "schedules": schedules,
	} {
		t.Run(name, func(t testkit.T) {
			// Topics share nothing, and much of their time is waiting.
			t.Parallel()
			topic(t, &suite{taskv1.NewTaskServiceClient(connect(t))})
		})
	}
}

// suite is the client under test.
type suite struct{ taskv1.TaskServiceClient }

// testTimeout bounds one call.
const testTimeout = 10 * time.Second

// soon is within what something that happens by itself must have happened.
const soon = 4 * time.Second

// unique returns a name that nobody else uses.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }

// as returns the context of a user of agent "coder".
func as(t testing.TB, user, session string) context.Context {
	return with(t, identity.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: session})
}

// with returns the context of an identity.
func with(t testing.TB, id identity.Identity) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return identity.NewContext(ctx, id)
}

// withEffect returns ctx with an effect id.
func withEffect(ctx context.Context, effect string) context.Context {
	id, _ := identity.FromContext(ctx)
	id.Effect = effect
	return identity.NewContext(ctx, id)
}

// worker returns the context of a worker.
func worker(t testing.TB) context.Context { return as(t, "", "") }

// job is a request for a task in a queue of its own.
func job(queue string) *taskv1.CreateTaskRequest {
	return &taskv1.CreateTaskRequest{Kind: "job", Queue: queue, Input: &taskv1.TaskInput{Text: "work"}}
}

// create creates a task that must be created.
func (s *suite) create(t testing.TB, ctx context.Context, r *taskv1.CreateTaskRequest) *taskv1.Task {
	t.Helper()
	created, err := s.CreateTask(ctx, r)
	if err != nil {
		t.Fatalf("CreateTask: %v", err)
	}
	return created.GetTask()
}

// get reads a task that must be there.
func (s *suite) get(t testing.TB, ctx context.Context, id string) *taskv1.Task {
	t.Helper()
	got, err := s.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: id})
	if err != nil {
		t.Fatalf("GetTask: %v", err)
	}
	return got.GetTask()
}

// offer is a worker's offer at a queue.
func offer(name, queue string) *taskv1.LeaseTasksRequest {
	return &taskv1.LeaseTasksRequest{WorkerId: name, Queue: queue, MaxTasks: 1, LeaseDuration: durationpb.New(10 * time.Second), MaxWait: durationpb.New(0)}
}

// lease leases one task, which must come soon.
func (s *suite) lease(t testing.TB, name, queue string, life time.Duration) *taskv1.Task {
	t.Helper()
	o := offer(name, queue)
	o.MaxWait, o.LeaseDuration = durationpb.New(soon), durationpb.New(life)
	leased, err := s.LeaseTasks(worker(t), o)
	if err != nil {
		t.Fatalf("LeaseTasks: %v", err)
	}
	if len(leased.GetTasks()) != 1 {
		t.Fatalf("LeaseTasks gave %d tasks within %s, want 1", len(leased.GetTasks()), soon)
	}
	return leased.GetTasks()[0]
}

// beat sends a heartbeat for a task.
func (s *suite) beat(t testing.TB, name string, h *taskv1.Heartbeat) *taskv1.HeartbeatResult {
	t.Helper()
	out, err := s.HeartbeatTasks(worker(t), &taskv1.HeartbeatTasksRequest{WorkerId: name, Heartbeats: []*taskv1.Heartbeat{h}})
	if err != nil || len(out.GetResults()) != 1 {
		t.Fatalf("HeartbeatTasks: %v, %v", out, err)
	}
	return out.GetResults()[0]
}

// completion reports that a leased task is done.
func completion(leased *taskv1.Task, text string) *taskv1.CompleteTaskRequest {
	return &taskv1.CompleteTaskRequest{
		TaskId: leased.GetId(), WorkerId: leased.GetLease().GetWorkerId(), FencingToken: leased.GetLease().GetFencingToken(), Result: &taskv1.TaskResult{Text: text},
	}
}

// failure reports that a leased task failed.
func failure(leased *taskv1.Task, reason string, retryable bool) *taskv1.FailTaskRequest {
	return &taskv1.FailTaskRequest{
		TaskId: leased.GetId(), WorkerId: leased.GetLease().GetWorkerId(), FencingToken: leased.GetLease().GetFencingToken(),
		Error: &taskv1.TaskError{Reason: reason, Message: "it " + reason, Retryable: retryable},
	}
}

// done creates a task and completes it.
func (s *suite) done(t testing.TB, ctx context.Context, r *taskv1.CreateTaskRequest, text string) *taskv1.Task {
	t.Helper()
	made := s.create(t, ctx, r)
	if _, err := s.CompleteTask(worker(t), completion(s.lease(t, "w", r.GetQueue(), 10*time.Second), text)); err != nil {
		t.Fatalf("CompleteTask: %v", err)
	}
	return made
}

// state waits until the task is in a state.
func (s *suite) state(t testing.TB, ctx context.Context, id string, want taskv1.TaskState) *taskv1.Task {
	t.Helper()
	var got *taskv1.Task
	testkit.Eventually(t, soon, func() error {
		got = s.get(t, ctx, id)
		if got.GetState() != want {
			return errors.New("state " + got.GetState().String() + ", want " + want.String())
		}
		return nil
	})
	return got
}

// refused checks class and reason of an error.
func refused(t testing.TB, what string, err, class error, reason string) {
	t.Helper()
	if !errors.Is(err, class) || (reason != "" && errdefs.ReasonOf(err) != reason) {
		t.Errorf("%s: error %v (reason %q), want class %q and reason %q", what, err, errdefs.ReasonOf(err), class, reason)
	}
}

// hidden checks that something is as if it did not exist.
func hidden(t testing.TB, what string, err error) {
	t.Helper()
	refused(t, what, err, errdefs.ErrNotFound, "TASK_NOT_FOUND")
}
