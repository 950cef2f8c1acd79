package task

import (
	"bytes"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Policy is what the state machine must know of the settings.
type Policy struct {
	// CancelGrace is how long a worker may take to stop after a cancel was asked for.
	CancelGrace time.Duration
}

// Decision is what follows from an event outside of the task itself.
type Decision struct {
	// Changed: the task is not what it was; it must be saved.
	Changed bool
	// Notable: watchers are told. Renewals alone are not notable.
	Notable bool
	// Ended: it became terminal by this event.
	Ended bool
	// Deliver: its parent thread is to be told that it ended.
	Deliver bool
	// EndChildren: what is below it is to be cancelled.
	EndChildren bool
	// Ready: it can be leased now and could not before.
	Ready bool
}

// Event is something that happens to a task. The events are the exported types of this file and of events.go.
type Event interface {
	apply(t *Task, now time.Time, p Policy) error
}

// Apply is the state machine. It returns the task after the event and what follows from it; the task that was passed is not changed. On an error nothing happens. A terminal task
// is never changed but for [Delivered].
func Apply(before Task, e Event, now time.Time, p Policy) (Task, Decision, error) {
	after := before
	if err := e.apply(&after, now, p); err != nil {
		return before, Decision{}, err
	}
	d := Decision{Changed: changed(&before, &after)}
	if !d.Changed {
		return before, Decision{}, nil
	}
	_, quiet := e.(Renewed)
	d.Notable = !quiet || before.State != after.State || before.Progress != after.Progress || before.ChildThread != after.ChildThread
	if after.State.Terminal() && !before.State.Terminal() {
		d.Ended = true
		d.Deliver = after.Delivery >= DeliverQueue && after.ParentThread != (identity.Thread{})
		d.EndChildren = after.State == Cancelled || after.State == Failed
	}
	// A parent that is to stop starts no more work below it, although it works itself until its worker has heard.
	d.EndChildren = d.EndChildren || (after.CancelAsked && !before.CancelAsked)
	d.Ready = after.Ready() && !before.Ready()
	after.Revision++
	after.UpdateTime = now
	return after, d, nil
}

// changed says whether an event did anything. Slices are replaced by events, never changed in place, so comparing what can change is enough.
func changed(a, b *Task) bool {
	return a.State != b.State || a.CancelAsked != b.CancelAsked || a.Epoch != b.Epoch || a.Lease != b.Lease || a.NotBefore != b.NotBefore ||
		a.Progress != b.Progress || a.ChildThread != b.ChildThread || a.ChildEnded != b.ChildEnded || a.DeliveredTime != b.DeliveredTime ||
		len(a.Answers) != len(b.Answers)
}

// Ready says whether a worker can lease the task. A time that it waits for is cleared by [Ticked].
func (t *Task) Ready() bool { return t.State == Pending && t.NotBefore.IsZero() }

// Live says whether the task has not ended.
func (t *Task) Live() bool { return !t.State.Terminal() }

// WakeTime returns when time alone will change the task: when [Ticked] must be applied. It is zero when time changes nothing.
func (t *Task) WakeTime(p Policy) time.Time {
	if t.State.Terminal() {
		return time.Time{}
	}
	wake := t.Deadline
	switch t.State {
	case Pending:
		wake = earlier(wake, t.NotBefore)
	case Running:
		wake = earlier(wake, t.Lease.Expire)
		if t.CancelAsked {
			wake = earlier(wake, t.CancelTime.Add(p.CancelGrace))
		}
	case Waiting:
		wake = earlier(wake, t.Wait.Resume)
		for _, i := range t.Wait.Interactions {
			if !t.answered(i.ID) {
				wake = earlier(wake, i.Expire)
			}
		}
	}
	return wake
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// due says whether a time that may be zero has come.
func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// finish ends the task.
func (t *Task) finish(state State, f Fault, r *Result, now time.Time) {
	t.State, t.EndTime = state, now
	if f != (Fault{}) || state == Completed {
		t.Fault = f
	}
	if !r.Empty() {
		t.Result = r
	}
	t.Lease, t.Wait, t.NotBefore, t.ChildEnded, t.Interrupted = Lease{}, WaitingFor{}, time.Time{}, false, false
}

// cancel ends the task as cancelled, with the reason that was given for it.
func (t *Task) cancel(reason string, r *Result, now time.Time) {
	message := t.CancelReason
	if message == "" {
		message = "cancelled"
	}
	t.finish(Cancelled, Fault{Reason: reason, Message: message}, r, now)
}

// requeue makes the task pending again. Notbefore may be zero.
func (t *Task) requeue(notBefore time.Time, interrupted bool) {
	t.State, t.NotBefore, t.Interrupted = Pending, notBefore, interrupted
	t.Lease, t.Wait = Lease{}, WaitingFor{}
}

// held checks that a call of a worker is about the present lease.
func (t *Task) held(by Holder) error {
	switch {
	case t.State.Terminal():
		return ended(t)
	case t.State != Running || t.Epoch != by.Token || t.Lease.Worker != by.Worker:
		return leaseLost(t, by.Token)
	}
	return nil
}

// repeated says whether a call was made before by the same lease and took effect.
func (t *Task) repeated(call []byte) bool { return len(call) > 0 && bytes.Equal(t.LastCall, call) }

// answered says whether an interaction has an answer.
func (t *Task) answered(id string) bool {
	_, ok := t.answer(id)
	return ok
}

func (t *Task) answer(id string) (Answer, bool) {
	for _, a := range t.Answers {
		if a.InteractionID == id {
			return a, true
		}
	}
	return Answer{}, false
}

// open says whether the task waits for somebody's answer.
func (t *Task) open() bool {
	for _, i := range t.Wait.Interactions {
		if !t.answered(i.ID) {
			return true
		}
	}
	return false
}

// AwaitsAnswer says whether the task stands still until somebody answers an interaction.
func (t *Task) AwaitsAnswer() bool { return t.State == Waiting && t.open() }

// budgetExceeded names the part of the budget that is used up, or "".
func (t *Task) budgetExceeded() string {
	for _, part := range []struct {
		name        string
		used, limit int64
	}{
		{"steps", t.Progress.Steps, t.Budget.Steps}, {"tokens", t.Progress.Tokens, t.Budget.Tokens}, {"cost_micros", t.Progress.CostMicros, t.Budget.CostMicros},
	} {
		if part.limit > 0 && part.used > part.limit {
			return part.name
		}
	}
	return ""
}

// merge takes new progress over. Totals never fall.
func (p Progress) merge(next *Progress, now time.Time) Progress {
	if next == nil {
		return p
	}
	merged := *next
	merged.Steps, merged.Tokens, merged.CostMicros = max(p.Steps, next.Steps), max(p.Tokens, next.Tokens), max(p.CostMicros, next.CostMicros)
	merged.Time = p.Time
	if merged != p {
		merged.Time = now
	}
	return merged
}

// wait returns the wait before the next attempt: initial, doubled for each attempt that was made, up to max.
func (b Backoff) wait(attempts int) time.Duration {
	wait := b.Initial
	for range attempts - 1 {
		if wait >= b.Max {
			break
		}
		wait *= 2
	}
	return min(wait, b.Max)
}

// invalid is an error of a request that no state of the task makes right.
func invalid(t *Task, reason, format string, args ...any) error {
	return Errorf(errdefs.ErrInvalidArgument, reason, format, args...).With("task_id", t.ID)
}
