package task

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// DefaultQueue is the queue of a task that names none.
const DefaultQueue = "default"

// New says what task to create, and on whose behalf.
type New struct {
	// Identity, Bucket and Grant are those of the call.
	Identity identity.Identity
	Bucket   string
	Grant    Grant

	Kind, Queue, Capability, Label string
	Input                          *Input
	ParentID                       string
	ParentThread, ChildThread      identity.Thread
	Delivery                       Delivery
	MaxAttempts                    int
	Backoff                        Backoff
	NotBefore, Deadline            time.Time
	Timeout                        time.Duration
	Budget                         Budget
	Priority                       int
	RetryOf, ScheduleID            string
	Annotations                    map[string]string

	RequestID string
	Call      Call
}

// Created is the outcome of a creation.
type Created struct {
	Task Task
	// Duplicate says that the task was there.
	Duplicate bool
}

// Create stores a task. It is durable when Create returns.
func (e *Engine) Create(ctx context.Context, n New) (Created, error) {
	return update(ctx, e, func(w *work) (Created, error) { return w.create(n) })
}

func (w *work) create(n New) (Created, error) {
	owner, err := OwnerKey(n.Identity)
	if err != nil {
		return Created{}, err
	}
	fresh := false
	created, err := once(w, n.Bucket, n.Call, func() (Created, error) {
		fresh = true
		return w.createOnce(owner, n)
	})
	created.Duplicate = created.Duplicate || (err == nil && !fresh)
	return created, err
}

// createOnce creates the task unless the same request made it before.
func (w *work) createOnce(owner string, n New) (Created, error) {
	var id string
	switch {
	case n.Call.Effect != "":
		id = newID("t_", "effect", n.Bucket, n.Call.Effect)
	case n.RequestID != "":
		id = newID("t_", "request", owner, n.RequestID)
	default:
		id = newID("t_")
	}
	switch before, err := w.Task(n.Identity.Tenant, id, Bare); {
	case err == nil && bytes.Equal(before.Request.Hash, n.Call.Hash):
		return Created{Task: before, Duplicate: true}, nil
	case err == nil:
		return Created{}, Errorf(errdefs.ErrAborted, ReasonRequestMismatch, "the request id was used for another task").With("request_id", n.RequestID).With("task_id", id)
	case err != ErrNoRow:
		return Created{}, err
	}
	t, err := w.newTask(id, owner, n)
	if err != nil {
		return Created{}, err
	}
	if err := w.admit(t.Tenant, owner); err != nil {
		return Created{}, err
	}
	wake := t.WakeTime(w.engine.policy())
	if err := w.Insert(&t, wake); err != nil {
		return Created{}, err
	}
	if !wake.IsZero() {
		w.Signal(Signal{Kind: SignalWake, Tenant: t.Tenant, Time: wake})
	}
	if t.Ready() {
		w.signalReady(&t)
	}
	return Created{Task: t}, w.note(&t, false)
}

// newTask makes the task in its first state.
func (w *work) newTask(id, owner string, n New) (Task, error) {
	if err := checkThreads(n); err != nil {
		return Task{}, err
	}
	// Metadata of the one call that created the task is no part of the identity that it works under.
	n.Identity.RequestID, n.Identity.Effect, n.Identity.Sandbox = "", "", ""
	t := Task{
		Tenant: n.Identity.Tenant, ID: id, Owner: owner, RootOwner: owner, RootID: id, State: Pending,
		Kind: n.Kind, Queue: orElse(n.Queue, DefaultQueue), Capability: n.Capability, Label: n.Label, Priority: n.Priority, Input: n.Input,
		Identity: n.Identity, Bucket: n.Bucket, Grant: n.Grant, ParentThread: n.ParentThread, ChildThread: n.ChildThread, Delivery: n.Delivery,
		MaxAttempts: orElse(n.MaxAttempts, w.engine.limits.MaxAttempts), Budget: n.Budget, RetryOf: n.RetryOf, ScheduleID: n.ScheduleID, Annotations: n.Annotations,
		Backoff: Backoff{Initial: orElse(n.Backoff.Initial, w.engine.limits.Backoff.Initial), Max: orElse(n.Backoff.Max, w.engine.limits.Backoff.Max)},
		Request: RequestMark{ID: n.RequestID, Hash: n.Call.Hash}, CreateTime: w.now, UpdateTime: w.now, Revision: 1,
	}
	if t.Delivery == 0 {
		t.Delivery = DeliverNone
		if t.ParentThread != (identity.Thread{}) {
			t.Delivery = DeliverQueue
		}
	}
	if err := w.setTimes(&t, n); err != nil {
		return Task{}, err
	}
	return t, w.setParent(&t, n)
}

// setTimes checks the times and computes the deadline by the store's clock.
func (w *work) setTimes(t *Task, n New) error {
	bad := func(field, problem string) error {
		return Errorf(errdefs.ErrInvalidArgument, ReasonTimeInvalid, "%s %s", field, problem).With("field", field)
	}
	t.Deadline = n.Deadline
	if n.Timeout > 0 {
		t.Deadline = earlier(t.Deadline, w.now.Add(n.Timeout))
	}
	switch {
	case due(t.Deadline, w.now):
		return bad("deadline_time", "is not after now")
	case t.Deadline.After(w.now.Add(maxAhead)):
		return bad("deadline_time", "is more than a year ahead")
	case n.NotBefore.After(w.now.Add(maxAhead)):
		return bad("not_before_time", "is more than a year ahead")
	case n.NotBefore.After(w.now):
		t.NotBefore = n.NotBefore
	}
	return nil
}

// setParent puts the task below its parent.
func (w *work) setParent(t *Task, n New) error {
	if n.ParentID == "" {
		return nil
	}
	parent, err := w.Task(t.Tenant, n.ParentID, Bare)
	if err == ErrNoRow || (err == nil && !mayAddChild(&parent, t.Owner, n.Identity)) {
		return Errorf(errdefs.ErrNotFound, ReasonParentNotFound, "no such parent task").With("parent_task_id", n.ParentID)
	}
	if err != nil {
		return err
	}
	if parent.State.Terminal() || parent.CancelAsked {
		return Errorf(errdefs.ErrFailedPrecondition, ReasonParentEnded, "the parent task has ended or is to end").
			With("parent_task_id", parent.ID).With("state", parent.State.String())
	}
	t.ParentID, t.RootID, t.RootOwner, t.Depth = parent.ID, parent.RootID, parent.RootOwner, parent.Depth+1
	if limit := w.engine.limits.MaxDepth; t.Depth > limit {
		return Errorf(errdefs.ErrFailedPrecondition, ReasonDepth, "tasks are nested too deeply").With("depth", strconv.Itoa(t.Depth)).With("limit", strconv.Itoa(limit))
	}
	return nil
}

// mayAddChild says whether a caller may put a task below another: who sees it, and the run that works for it.
func mayAddChild(parent *Task, owner string, id identity.Identity) bool {
	if (Viewer{Tenant: id.Tenant, Owner: owner}).Sees(parent) {
		return true
	}
	thread, err := id.Thread()
	return err == nil && parent.ChildThread == thread
}

// checkThreads checks that results go to the caller's own threads and work is done in threads of the caller's user: a task must not be a way into somebody else's conversation.
func checkThreads(n New) error {
	id := n.Identity
	denied := func(field string) error {
		return Errorf(errdefs.ErrPermissionDenied, ReasonThreadNotAllowed, "the thread is not the caller's").With("field", field)
	}
	if p := n.ParentThread; p != (identity.Thread{}) {
		if p.Tenant != id.Tenant || p.Agent != id.Agent || p.User != id.User || (id.User == "" && p.Session != id.Session) {
			return denied("parent_thread")
		}
	} else if n.Delivery >= DeliverQueue {
		return Errorf(errdefs.ErrInvalidArgument, ReasonThreadNotAllowed, "this delivery needs a parent thread").With("field", "parent_thread")
	}
	return checkChildThread(id, n.ChildThread)
}

// checkChildThread checks that a run's thread is of the tenant and user for whom it works.
func checkChildThread(id identity.Identity, c identity.Thread) error {
	if c != (identity.Thread{}) && (c.Tenant != id.Tenant || c.User != id.User) {
		return Errorf(errdefs.ErrPermissionDenied, ReasonThreadNotAllowed, "the thread is not of the task's user").With("field", "child_thread")
	}
	return nil
}

// admit refuses a task when too many have not ended.
func (w *work) admit(tenant, owner string) error {
	for _, bound := range []struct {
		scope, owner string
		limit        int
	}{{"owner", owner, w.engine.limits.LivePerOwner}, {"tenant", "", w.engine.limits.LivePerTenant}} {
		n, err := w.CountLive(tenant, bound.owner, bound.limit)
		if err != nil {
			return err
		}
		if n >= bound.limit {
			return Errorf(errdefs.ErrResourceExhausted, ReasonQueueFull, "%d tasks of this %s have not ended", n, bound.scope).
				With("scope", bound.scope).With("limit", strconv.Itoa(bound.limit)).RetryIn(w.engine.limits.RetryAfter)
		}
	}
	return nil
}

// Retry makes a new task from one that ended without success.
func (e *Engine) Retry(ctx context.Context, v Viewer, id string, n New) (Created, error) {
	return update(ctx, e, func(w *work) (Created, error) {
		old, err := seen(w, v, id, WithInput)
		if err != nil {
			return Created{}, err
		}
		if old.State != Failed && old.State != Partial && old.State != Cancelled {
			return Created{}, Errorf(errdefs.ErrFailedPrecondition, ReasonNotRetryable, "only a task that ended without success can be tried again").
				With("task_id", old.ID).With("state", old.State.String())
		}
		// It works under the caller's identity of now: what was granted then may have been taken back.
		n.Kind, n.Queue, n.Capability, n.Label, n.Priority, n.Input = old.Kind, old.Queue, old.Capability, old.Label, old.Priority, old.Input
		n.MaxAttempts, n.Backoff, n.Budget, n.Annotations, n.RetryOf = old.MaxAttempts, old.Backoff, old.Budget, old.Annotations, old.ID
		n.ParentThread, n.Delivery = old.ParentThread, old.Delivery
		if checkThreads(n) != nil {
			// Who tries a task again that somebody else's run made gets the result by reading it.
			n.ParentThread, n.Delivery = identity.Thread{}, DeliverNone
		}
		return w.create(n)
	})
}

func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
