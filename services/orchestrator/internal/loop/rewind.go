package loop

import (
	"fmt"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// A Rewinding is the error of [Thread.Apply] for an event that moves the thread back: what it goes back to is in the journal and not in the projection. Whoever folds reads the thread up to To, and
// applies the event with [Thread.Rewind].
type Rewinding struct {
	// To is the last event that counts. 0: none does.
	To int64
}

func (r *Rewinding) Error() string {
	return fmt.Sprintf("the thread goes back to event %d, which must be read first", r.To)
}

// Rewind folds an event that moves the thread back to what it was after an earlier one, which is past: what people and models see of it. What happened outside of it stays: which runs and calls there
// were, and the tasks that work.
func (t *Thread) Rewind(ev *threadv1.Event, past *Thread) error {
	p := ev.GetPayload().GetThreadRewound()
	switch {
	case p == nil || ev.GetSeq() != t.Seq+1:
		return fmt.Errorf("event %d is none that moves a thread of %d events back", ev.GetSeq(), t.Seq)
	case past.Seq != p.GetToSeq():
		return fmt.Errorf("event %d: the thread goes back to %d, not to %d", ev.GetSeq(), p.GetToSeq(), past.Seq)
	case t.Run != nil || past.Run != nil:
		return fmt.Errorf("event %d: the thread goes back while a run is open", ev.GetSeq())
	}
	t.Seq, t.held = ev.GetSeq(), nil
	t.Conversation, t.Todos, t.Planning, t.PlanPath, t.Mode, t.Rules = past.Conversation, past.Todos, past.Planning, past.PlanPath, past.Mode, past.Rules
	return nil
}
