package task

import (
	"context"
	"time"
)

// Limits are the settings of the engine.
type Limits struct {
	// LivePerOwner and LivePerTenant bound the tasks that have not ended.
	LivePerOwner, LivePerTenant int
	// SchedulesPerOwner bounds schedules.
	SchedulesPerOwner int
	// MaxDepth bounds how deeply tasks are nested.
	MaxDepth int
	// MaxAttempts and Backoff are those of a task that states none.
	MaxAttempts int
	Backoff     Backoff
	// CancelGrace is how long a worker may take to stop.
	CancelGrace time.Duration
	// RetryAfter is what a caller is told when a queue is full.
	RetryAfter time.Duration
}

// maxAhead bounds times in the future.
const maxAhead = 366 * 24 * time.Hour

// DeliveryEncoder makes the payload of the mail that tells a thread that a task ended. Equal tasks must give equal bytes.
type DeliveryEncoder func(*Task) ([]byte, error)

// Engine does each call of the service in one transaction of the store. It may be used by many goroutines.
type Engine struct {
	store  Store
	limits Limits
	encode DeliveryEncoder
}

// NewEngine returns an engine on a store, which stays the caller's.
func NewEngine(store Store, limits Limits, encode DeliveryEncoder) *Engine {
	return &Engine{store: store, limits: limits, encode: encode}
}

// Call is what makes a mutating call happen exactly once.
type Call struct {
	// Effect is the effect id. Empty: the call is not recorded.
	Effect string
	// Hash is of the method and the whole request.
	Hash []byte
}

// work is one transaction of the engine.
type work struct {
	Tx
	engine *Engine
	now    time.Time
	// requested and stopped count tasks that a cascade reached.
	requested, stopped int
}

// update runs fn in a transaction. fn may run several times; only what the last run returned counts.
func update[T any](ctx context.Context, e *Engine, fn func(*work) (T, error)) (T, error) {
	var out T
	err := e.store.Update(ctx, func(tx Tx) error {
		var err error
		out, err = fn(&work{Tx: tx, engine: e, now: tx.Now()})
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return out, nil
}

// view runs fn on a snapshot.
func view[T any](ctx context.Context, e *Engine, fn func(ReadTx) (T, error)) (T, error) {
	var out T
	err := e.store.View(ctx, func(tx ReadTx) error {
		var err error
		out, err = fn(tx)
		return err
	})
	return out, err
}

// apply lets an event happen to a task and does what follows from it, all in the transaction. The task is replaced by what it became.
func (w *work) apply(t *Task, e Event) error { return w.applied(t, e, true) }

// applied is apply; upwards says that the parent is to be told of the end of a child.
func (w *work) applied(t *Task, e Event, upwards bool) error {
	after, d, err := Apply(*t, e, w.now, w.engine.policy())
	if err != nil || !d.Changed {
		return err
	}
	*t = after
	wake := t.WakeTime(w.engine.policy())
	if err := w.Save(t, wake); err != nil {
		return err
	}
	if !wake.IsZero() {
		w.Signal(Signal{Kind: SignalWake, Tenant: t.Tenant, Time: wake})
	}
	if d.Ready {
		w.signalReady(t)
	}
	if d.Deliver {
		if err := w.deliver(t); err != nil {
			return err
		}
	}
	if d.Notable {
		if err := w.note(t, false); err != nil {
			return err
		}
	}
	if d.EndChildren {
		if err := w.endChildren(t); err != nil {
			return err
		}
	}
	if d.Ended && upwards && t.ParentID != "" {
		return w.tellParent(t)
	}
	return nil
}

func (e *Engine) policy() Policy { return Policy{CancelGrace: e.limits.CancelGrace} }

func (w *work) signalReady(t *Task) {
	w.Signal(Signal{Kind: SignalReady, Tenant: t.Tenant, TaskID: t.ID, Queue: t.Queue, Capability: t.Capability})
}

// note appends a task to the change log, once for each owner key that sees it.
func (w *work) note(t *Task, purged bool) error {
	owners := []string{t.Owner}
	if t.RootOwner != t.Owner {
		owners = append(owners, t.RootOwner)
	}
	for _, owner := range owners {
		entry := Change{Owner: owner, Task: *t, Purged: purged, Time: w.now}
		// Answers may hold secrets and much data; who wants them reads the task.
		entry.Task.Answers = nil
		if _, err := w.AddChange(entry); err != nil {
			return err
		}
	}
	w.Signal(Signal{Kind: SignalChanged, Tenant: t.Tenant, TaskID: t.ID, Owner: t.Owner, RootOwner: t.RootOwner})
	return nil
}

// deliver puts the message for the parent thread into the outbox.
func (w *work) deliver(t *Task) error {
	payload, err := w.engine.encode(t)
	if err != nil {
		return err
	}
	w.Signal(Signal{Kind: SignalMail, Tenant: t.Tenant, TaskID: t.ID})
	return w.PutMail(Mail{
		MessageID: MessageID(t.ID), Tenant: t.Tenant, TaskID: t.ID, Thread: t.ParentThread.Key(), Kind: MailTaskResult, Payload: payload,
		// Who cancelled a task does not want to hear of it; the mail waits for the next run.
		Wake: t.Delivery == DeliverWake && t.State != Cancelled, NextTime: w.now,
	})
}

// MailTaskResult is the kind of the mail that tells a thread that a task ended.
const MailTaskResult = "task_result"

// MessageID returns the id of that mail: the same for every attempt.
func MessageID(taskID string) string { return "task/" + taskID }

// endChildren asks everything below a task to end.
func (w *work) endChildren(t *Task) error {
	children, err := w.Children(t.Tenant, t.ID)
	if err != nil {
		return err
	}
	reason := "the task above was cancelled"
	if t.State == Failed {
		reason = "the task above failed"
	}
	for i := range children {
		child := &children[i]
		if child.CancelAsked {
			continue
		}
		if err := w.applied(child, CancelAsked{Reason: reason, ParentEnded: true}, false); err != nil {
			return err
		}
		w.requested++
		if child.State.Terminal() {
			w.stopped++
		}
	}
	return nil
}

// tellParent tells the parent of a task that it ended.
func (w *work) tellParent(t *Task) error {
	parent, err := w.Task(t.Tenant, t.ParentID, Bare)
	if err == ErrNoRow {
		return nil
	}
	if err != nil {
		return err
	}
	return w.apply(&parent, ChildEnded{})
}

// seen returns a task that the viewer sees, or TASK_NOT_FOUND.
func seen(tx ReadTx, v Viewer, id string, parts Parts) (Task, error) {
	t, err := tx.Task(v.Tenant, id, parts)
	if err == ErrNoRow || (err == nil && !v.Sees(&t)) {
		return Task{}, NotFound(id)
	}
	return t, err
}
