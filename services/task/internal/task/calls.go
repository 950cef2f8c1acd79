package task

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Claim is a worker's offer.
type Claim struct {
	Tenant       string
	Worker       string
	Queue        string
	Capabilities []string
	Max          int
	Life         time.Duration
}

// Lease gives ready tasks to a worker, with their input. It does not wait.
func (e *Engine) Lease(ctx context.Context, c Claim) ([]Task, error) {
	return update(ctx, e, func(w *work) ([]Task, error) {
		var found []Task
		for _, capability := range append([]string{""}, c.Capabilities...) {
			ready, err := w.Ready(c.Tenant, orElse(c.Queue, DefaultQueue), capability, c.Max)
			if err != nil {
				return nil, err
			}
			found = append(found, ready...)
		}
		slices.SortStableFunc(found, func(a, b Task) int { return cmp.Or(cmp.Compare(a.Rank(), b.Rank()), cmp.Compare(a.Seq, b.Seq)) })
		var leased []Task
		for i := range found[:min(len(found), c.Max)] {
			t := &found[i]
			if due(t.Deadline, w.now) {
				if err := w.apply(t, Ticked{}); err != nil {
					return nil, err
				}
				continue
			}
			if err := w.apply(t, Leased{Worker: c.Worker, Life: c.Life}); err != nil {
				return nil, err
			}
			leased = append(leased, *t)
		}
		return leased, nil
	})
}

// Beat is a heartbeat for one task.
type Beat struct {
	TaskID      string
	Token       int64
	Progress    *Progress
	ChildThread identity.Thread
	Release     bool
}

// BeatResult says what became of a lease.
type BeatResult struct {
	TaskID          string
	Lost, Released  bool
	LeaseExpire     time.Time
	CancelRequested bool
	// State is zero when there is no such task.
	State  State
	Reason string
}

// Heartbeat renews leases. Each stands for itself.
func (e *Engine) Heartbeat(ctx context.Context, v Viewer, worker string, beats []Beat) ([]BeatResult, error) {
	return update(ctx, e, func(w *work) ([]BeatResult, error) {
		results := make([]BeatResult, 0, len(beats))
		for _, b := range beats {
			r, err := w.beat(v, worker, b)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
		return results, nil
	})
}

func (w *work) beat(v Viewer, worker string, b Beat) (BeatResult, error) {
	r := BeatResult{TaskID: b.TaskID}
	t, err := seen(w, v, b.TaskID, Bare)
	if errors.Is(err, errdefs.ErrNotFound) {
		r.Lost = true
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := checkChildThread(t.Identity, b.ChildThread); err != nil {
		return r, err
	}
	err = w.apply(&t, Renewed{By: Holder{worker, b.Token}, Progress: b.Progress, ChildThread: b.ChildThread, Release: b.Release})
	r.State, r.CancelRequested = t.State, t.CancelAsked
	switch reason := errdefs.ReasonOf(err); {
	case reason == ReasonEnded || reason == ReasonLeaseLost || (err == nil && !b.Release && t.State != Running):
		r.Lost = true
		if t.State.Terminal() {
			r.Reason = t.Fault.Reason
		}
		return r, nil
	case err != nil:
		return r, err
	}
	r.Released, r.LeaseExpire = b.Release, t.Lease.Expire
	return r, nil
}

// Report lets a worker's event happen: [Finished], [Broke] or [Suspended].
func (e *Engine) Report(ctx context.Context, v Viewer, id string, c Call, event Event) (Task, error) {
	return update(ctx, e, func(w *work) (Task, error) {
		t, err := seen(w, v, id, Bare)
		if err != nil {
			return Task{}, err
		}
		return once(w, t.Bucket, c, func() (Task, error) {
			if s, ok := event.(Suspended); ok && s.For.OnChild {
				// A task that waits for a child and has none would wait for ever.
				children, err := w.Children(t.Tenant, t.ID)
				if err != nil {
					return t, err
				}
				t.ChildEnded = t.ChildEnded || len(children) == 0
			}
			err := w.apply(&t, event)
			return t, err
		})
	})
}

// Respond brings answers to a task.
func (e *Engine) Respond(ctx context.Context, v Viewer, bucket, id string, c Call, answers []Answer) (Task, error) {
	return update(ctx, e, func(w *work) (Task, error) {
		return once(w, bucket, c, func() (Task, error) {
			t, err := seen(w, v, id, Bare)
			if err != nil {
				return Task{}, err
			}
			err = w.apply(&t, Answered{Answers: answers})
			return t, err
		})
	})
}

// CancelOutcome says what a cancel asked for and what happened.
type CancelOutcome struct {
	Task                         Task
	Requested, Stopped           bool
	BelowRequested, BelowStopped int
}

// Cancel asks a task and all below it to end.
func (e *Engine) Cancel(ctx context.Context, v Viewer, bucket, id string, c Call, reason string) (CancelOutcome, error) {
	return update(ctx, e, func(w *work) (CancelOutcome, error) {
		return once(w, bucket, c, func() (CancelOutcome, error) {
			t, err := seen(w, v, id, Bare)
			if err != nil {
				return CancelOutcome{}, err
			}
			err = w.apply(&t, CancelAsked{Reason: reason})
			return CancelOutcome{
				Task: t, Requested: t.CancelAsked, Stopped: t.State.Terminal(), BelowRequested: w.requested, BelowStopped: w.stopped,
			}, err
		})
	})
}
