// Package storetest is the suite of the port [task.Store]. Every backend passes it, and so does every wrapper around one.
//
//	func TestStore(t *testing.T) { storetest.Run(testkit.Wrap(t), open) }
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// Fixture is one store under test.
type Fixture struct {
	// Store is fresh and empty. The factory closes it at the end of the test.
	Store task.Store
	// Advance moves the store's clock forward.
	Advance func(time.Duration)
	// Reopen closes the store as it is, opens it again from what is durable, and returns it. What was open before is not used afterwards. It can be called again.
	Reopen func() task.Store
}

// Factory makes a fixture. It fails the test when it can't.
type Factory func(tb testing.TB) Fixture

// Run runs the suite.
func Run(t testkit.T, open Factory) {
	t.Run("transactions", func(t testkit.T) { transactions(t, open) })
	t.Run("rows", func(t testkit.T) { rows(t, open) })
	t.Run("lists", func(t testkit.T) { lists(t, open) })
	t.Run("queue", func(t testkit.T) { queues(t, open) })
	t.Run("log", func(t testkit.T) { logs(t, open) })
	t.Run("schedules", func(t testkit.T) { schedules(t, open) })
	t.Run("engine", func(t testkit.T) { engines(t, open) })
	if t.Failed() {
		// A store with a known fault has random ones too, which take long to settle and say less.
		return
	}
	t.Run("random interleavings", func(t testkit.T) { interleavings(t, open) })
}

// limits are those of the engine in this suite.
var limits = task.Limits{
	LivePerOwner: 1000, LivePerTenant: 2000, SchedulesPerOwner: 10, MaxDepth: 8, MaxAttempts: 3,
	Backoff: task.Backoff{Initial: time.Second, Max: time.Minute}, CancelGrace: 30 * time.Second, RetryAfter: time.Second,
}

// encode is a delivery that names the task and its state.
func encode(t *task.Task) ([]byte, error) { return []byte(t.ID + " " + t.State.String()), nil }

func engineOn(s task.Store) *task.Engine { return task.NewEngine(s, limits, encode) }

// who is an identity of the default tenant with agent "coder".
func who(user, session string) identity.Identity {
	return identity.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: session}
}

// viewer is who sees what the identity owns.
func viewer(id identity.Identity) task.Viewer {
	owner, err := task.OwnerKey(id)
	if err != nil {
		panic(err)
	}
	return task.Viewer{Tenant: id.Tenant, Owner: owner}
}

// workers is the viewer of workers of the default tenant.
var workers = task.Viewer{Tenant: identity.DefaultTenant}

// newTask is a creation on behalf of an identity.
func newTask(id identity.Identity, label string) task.New {
	bucket, err := id.Bucket()
	if err != nil {
		panic(err)
	}
	return task.New{Identity: id, Bucket: bucket.Key(), Kind: "job", Label: label, Input: &task.Input{Text: "do " + label}}
}

// create creates a task that must be created.
func create(t testing.TB, e *task.Engine, n task.New) task.Task {
	t.Helper()
	created, err := e.Create(t.Context(), n)
	if err != nil {
		t.Fatalf("create %q: %v", n.Label, err)
	}
	return created.Task
}

// lease leases one task that must be there.
func lease(t testing.TB, e *task.Engine, worker string) task.Task {
	t.Helper()
	leased := leaseAll(t, e, worker, 1)
	if len(leased) != 1 {
		t.Fatalf("worker %s got %d tasks, want 1", worker, len(leased))
	}
	return leased[0]
}

func leaseAll(t testing.TB, e *task.Engine, worker string, most int) []task.Task {
	t.Helper()
	leased, err := e.Lease(t.Context(), task.Claim{Tenant: identity.DefaultTenant, Worker: worker, Max: most, Life: 5 * time.Second})
	if err != nil {
		t.Fatalf("lease for %s: %v", worker, err)
	}
	return leased
}

// finish reports success.
func finish(t testing.TB, e *task.Engine, one task.Task, text string) (task.Task, error) {
	t.Helper()
	return e.Report(t.Context(), workers, one.ID, task.Call{}, task.Finished{
		By: task.Holder{Worker: one.Lease.Worker, Token: one.Epoch}, Result: &task.Result{Text: text},
	})
}

// get reads a task that must be there.
func get(t testing.TB, e *task.Engine, v task.Viewer, id string) task.Task {
	t.Helper()
	seen, err := e.Get(t.Context(), v, id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return seen.Task
}

// sweep lets time happen until nothing is due.
func sweep(t testing.TB, e *task.Engine) {
	t.Helper()
	for range 1000 {
		n, err := e.Sweep(t.Context())
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		if n == 0 {
			return
		}
	}
	t.Fatal("the sweep never ends")
}

// wantReason checks class and reason of an error.
func wantReason(t testing.TB, what string, err, class error, reason string) {
	t.Helper()
	if !errors.Is(err, class) || errdefs.ReasonOf(err) != reason {
		t.Errorf("%s: error %v (reason %q), want class %q and reason %s", what, err, errdefs.ReasonOf(err), class, reason)
	}
}

// update runs a transaction that must succeed.
func update(t testing.TB, s task.Store, fn func(task.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

// view reads, which must succeed.
func view(t testing.TB, s task.Store, fn func(task.ReadTx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatalf("view: %v", err)
	}
}

// row is a task for tests of the store alone.
func row(id, owner string) *task.Task {
	return &task.Task{
		Tenant: "default", ID: id, Owner: owner, RootOwner: owner, RootID: id, Kind: "job", Queue: "default", State: task.Pending, Delivery: task.DeliverNone,
		Identity: who("ana", ""), MaxAttempts: 1, CreateTime: epoch, UpdateTime: epoch, Revision: 1,
	}
}

var epoch = time.Date(2026, 10, 1, 10, 0, 0, 123456000, time.UTC)

// insert adds tasks in one transaction.
func insert(t testing.TB, s task.Store, tasks ...*task.Task) {
	t.Helper()
	update(t, s, func(tx task.Tx) error {
		for _, one := range tasks {
			if err := tx.Insert(one, time.Time{}); err != nil {
				return fmt.Errorf("insert %s: %w", one.ID, err)
			}
		}
		return nil
	})
}

// ids are the ids of tasks.
func ids(tasks []task.Task) []string {
	out := make([]string, 0, len(tasks))
	for _, one := range tasks {
		out = append(out, one.ID)
	}
	return out
}

var errUndo = errors.New("undo")

// timeout bounds what must not hang.
func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
