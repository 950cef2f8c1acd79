package task

import (
	"fmt"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Holder is who says that it has the lease.
type Holder struct {
	Worker string
	Token  int64
}

// Leased gives the task to a worker. Only a task that is [Task.Ready] can be leased.
type Leased struct {
	Worker string
	Life   time.Duration
}

func (e Leased) apply(t *Task, now time.Time, _ Policy) error {
	if !t.Ready() {
		return Errorf(errdefs.ErrAborted, ReasonLeaseLost, "the task can't be leased").With("task_id", t.ID).With("state", t.State.String())
	}
	if !t.Interrupted {
		t.Attempts++
	}
	resumed := t.Interrupted || t.Attempts > 1
	t.State, t.Interrupted, t.ChildEnded = Running, false, false
	t.Epoch++
	t.Lease = Lease{Worker: e.Worker, Expire: now.Add(e.Life), Life: e.Life, Resumed: resumed}
	if t.StartTime.IsZero() {
		t.StartTime = now
	}
	return nil
}

// Renewed is a heartbeat.
type Renewed struct {
	By          Holder
	Progress    *Progress
	ChildThread identity.Thread
	Release     bool
}

func (e Renewed) apply(t *Task, now time.Time, _ Policy) error {
	if err := t.held(e.By); err != nil {
		return err
	}
	t.Progress = t.Progress.merge(e.Progress, now)
	if t.ChildThread == (identity.Thread{}) {
		t.ChildThread = e.ChildThread
	}
	if part := t.budgetExceeded(); part != "" && !t.CancelAsked {
		t.finish(Failed, Fault{Reason: FaultBudget, Message: fmt.Sprintf("the task used more %s than its budget allows", part)}, nil, now)
		return nil
	}
	switch {
	case e.Release && t.CancelAsked:
		t.cancel(FaultCancelled, nil, now)
	case e.Release:
		t.requeue(time.Time{}, true)
	default:
		t.Lease.Expire = now.Add(t.Lease.Life)
	}
	return nil
}

// Finished is a worker's report of success. Call is a hash of the whole call, by which a repeat is known.
type Finished struct {
	By       Holder
	Call     []byte
	Result   *Result
	Progress *Progress
}

func (e Finished) apply(t *Task, now time.Time, _ Policy) error {
	if t.repeated(e.Call) {
		return nil
	}
	if err := t.held(e.By); err != nil {
		return err
	}
	if t.Kind == KindAgentRun && e.Result.Empty() {
		return invalid(t, ReasonResultEmpty, "a run that left neither text nor data is not complete; report it as failed")
	}
	t.LastCall = e.Call
	t.Progress = t.Progress.merge(e.Progress, now)
	if t.CancelAsked {
		t.cancel(FaultCancelled, e.Result, now)
		return nil
	}
	t.finish(Completed, Fault{}, e.Result, now)
	return nil
}

// KindAgentRun is the kind of task whose result must say something.
const KindAgentRun = "agent_run"

// Broke is a worker's report of failure, or that it stopped.
type Broke struct {
	By         Holder
	Call       []byte
	Fault      Fault
	Partial    *Result
	RetryAfter time.Duration
	Progress   *Progress
}

func (e Broke) apply(t *Task, now time.Time, _ Policy) error {
	if t.repeated(e.Call) {
		return nil
	}
	if err := t.held(e.By); err != nil {
		return err
	}
	t.LastCall = e.Call
	t.Progress = t.Progress.merge(e.Progress, now)
	switch {
	case t.CancelAsked:
		t.cancel(FaultCancelled, e.Partial, now)
	case e.Fault.Retryable && t.Attempts < t.MaxAttempts:
		t.Fault = e.Fault
		t.requeue(now.Add(max(t.Backoff.wait(t.Attempts), e.RetryAfter)), false)
		if !t.NotBefore.After(now) {
			t.NotBefore = time.Time{}
		}
	case !e.Partial.Empty():
		t.finish(Partial, e.Fault, e.Partial, now)
	default:
		t.finish(Failed, e.Fault, nil, now)
	}
	return nil
}

// Suspended is a worker's report that there is nothing to do for now.
type Suspended struct {
	By       Holder
	Call     []byte
	For      WaitingFor
	Progress *Progress
}

func (e Suspended) apply(t *Task, now time.Time, _ Policy) error {
	if t.repeated(e.Call) {
		return nil
	}
	if err := t.held(e.By); err != nil {
		return err
	}
	if len(e.For.Interactions) == 0 && e.For.Resume.IsZero() && !e.For.OnChild {
		return invalid(t, ReasonNothingToWaitFor, "a task must wait for an interaction, a child or a time")
	}
	t.LastCall = e.Call
	t.Progress = t.Progress.merge(e.Progress, now)
	if t.CancelAsked {
		t.cancel(FaultCancelled, nil, now)
		return nil
	}
	childEnded := t.ChildEnded
	t.State, t.Lease, t.ChildEnded = Waiting, Lease{}, false
	t.Wait = e.For
	t.Wait.Since = now
	// Answers to interactions that it waits for no more have been used.
	t.Answers = slices.DeleteFunc(slices.Clone(t.Answers), func(a Answer) bool {
		return !slices.ContainsFunc(e.For.Interactions, func(i Interaction) bool { return i.ID == a.InteractionID })
	})
	if (e.For.OnChild && childEnded) || due(e.For.Resume, now) || (len(e.For.Interactions) > 0 && !t.open()) {
		t.requeue(time.Time{}, true)
	}
	return nil
}

// Answered brings answers to interactions.
type Answered struct{ Answers []Answer }

func (e Answered) apply(t *Task, now time.Time, _ Policy) error {
	if t.State.Terminal() {
		return ended(t)
	}
	answers := slices.Clone(t.Answers)
	for _, next := range e.Answers {
		if before, ok := t.answer(next.InteractionID); ok {
			if !before.same(next) {
				return Errorf(errdefs.ErrFailedPrecondition, ReasonInteractionClosed, "the interaction is closed").
					With("interaction_id", next.InteractionID).With("decision", before.Decision)
			}
			continue
		}
		known := t.State == Waiting && slices.ContainsFunc(t.Wait.Interactions, func(i Interaction) bool { return i.ID == next.InteractionID })
		if !known {
			return Errorf(errdefs.ErrNotFound, ReasonInteractionNotFound, "the task does not wait for this interaction").
				With("interaction_id", next.InteractionID)
		}
		next.Time = now
		answers = append(answers, next)
	}
	t.Answers = answers
	if t.State == Waiting && len(t.Wait.Interactions) > 0 && !t.open() {
		t.requeue(time.Time{}, true)
	}
	return nil
}

// same says whether two answers say the same, whoever gave them and when.
func (a Answer) same(b Answer) bool {
	return a.Decision == b.Decision && slices.Equal(a.Texts, b.Texts) && string(a.Data) == string(b.Data)
}

// CancelAsked asks the task to end for good.
type CancelAsked struct {
	// Reason is for people.
	Reason string
	// ParentEnded says that it is asked because a task above ended or is to end.
	ParentEnded bool
}

func (e CancelAsked) apply(t *Task, now time.Time, _ Policy) error {
	if t.State.Terminal() || t.CancelAsked {
		return nil
	}
	t.CancelAsked, t.CancelTime, t.CancelReason = true, now, e.Reason
	if t.State == Running {
		return nil
	}
	reason := FaultCancelled
	if e.ParentEnded {
		reason = FaultParentEnded
	}
	t.cancel(reason, nil, now)
	return nil
}

// ChildEnded tells a task that one of its children ended.
type ChildEnded struct{}

func (ChildEnded) apply(t *Task, _ time.Time, _ Policy) error {
	switch {
	case t.State == Waiting && t.Wait.OnChild:
		t.requeue(time.Time{}, true)
	case t.State == Running:
		t.ChildEnded = true
	}
	return nil
}

// Delivered says that the parent thread's mailbox took the result. It is the one event that changes a task that has ended.
type Delivered struct{}

func (Delivered) apply(t *Task, now time.Time, _ Policy) error {
	if t.DeliveredTime.IsZero() {
		t.DeliveredTime = now
	}
	return nil
}

// Ticked says that time has passed. It does what [Task.WakeTime] announced.
type Ticked struct{}

func (Ticked) apply(t *Task, now time.Time, p Policy) error {
	switch {
	case t.State.Terminal():
	case due(t.Deadline, now) && t.CancelAsked:
		t.cancel(FaultCancelForced, nil, now)
	case due(t.Deadline, now):
		t.finish(Failed, Fault{Reason: FaultDeadline, Message: "the task did not end before its deadline"}, nil, now)
	case t.State == Pending && due(t.NotBefore, now):
		t.NotBefore = time.Time{}
	case t.State == Running && t.CancelAsked && due(t.CancelTime.Add(p.CancelGrace), now):
		t.cancel(FaultCancelForced, nil, now)
	case t.State == Running && due(t.Lease.Expire, now):
		t.loseWorker(now)
	case t.State == Waiting:
		t.tickWaiting(now)
	}
	return nil
}

// loseWorker ends a lease that was not renewed.
func (t *Task) loseWorker(now time.Time) {
	lost := Fault{Reason: FaultWorkerLost, Message: fmt.Sprintf("worker %q did not renew its lease in time", t.Lease.Worker), Retryable: true}
	switch {
	case t.CancelAsked:
		// Its worker is gone: nothing works on it any more, and what may still come is fenced.
		t.cancel(FaultCancelled, nil, now)
	case t.Attempts >= t.MaxAttempts:
		t.finish(Failed, lost, nil, now)
	default:
		t.Fault = lost
		t.requeue(time.Time{}, false)
	}
}

// tickWaiting closes interactions whose time is up, and goes on when nothing is left to wait for.
func (t *Task) tickWaiting(now time.Time) {
	answers := slices.Clone(t.Answers)
	for _, i := range t.Wait.Interactions {
		if due(i.Expire, now) && !t.answered(i.ID) {
			answers = append(answers, Answer{InteractionID: i.ID, Decision: DecisionExpired, Time: now})
		}
	}
	t.Answers = answers
	if due(t.Wait.Resume, now) || (len(t.Wait.Interactions) > 0 && !t.open()) {
		t.requeue(time.Time{}, true)
	}
}
