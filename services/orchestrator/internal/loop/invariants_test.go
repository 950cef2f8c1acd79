package loop_test

import (
	"fmt"
	"slices"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// soundAction says what is wrong with an action, by the precondition of its kind.
func soundAction(t *loop.Thread, act loop.Action) error {
	r := t.Run
	if r == nil {
		return wrongIf(act.Kind != loop.Idle, "no run is open and next is %v", act.Kind)
	}
	if r.State == threadv1.RunState_RUN_STATE_SUSPENDED && act.Kind != loop.Idle {
		return fmt.Errorf("%v of a run that is suspended", act.Kind)
	}
	flying := slices.ContainsFunc(r.Calls, (*loop.Call).Flying)
	for _, c := range act.Calls {
		if c.Result != nil {
			return fmt.Errorf("%v of %s, which has a result", act.Kind, c.Call.GetId())
		}
	}
	stopping := t.Stopping(facts)
	switch act.Kind {
	case loop.Idle:
		return wrongIf(r.State != threadv1.RunState_RUN_STATE_SUSPENDED || len(r.Interactions()) == 0, "idle while %v with %d questions", r.State, len(r.Interactions()))
	case loop.Prepare:
		return wrongIf(r.Model != nil || len(r.Calls) > 0 || r.Cancel != nil || len(t.Held()) > 0 || act.Final != (r.Step >= r.Settings.MaxSteps) || r.Step > r.Settings.MaxSteps,
			"a request at step %d with %d calls open", r.Step, len(r.Calls))
	case loop.AwaitModel:
		return wrongIf(r.Model == nil, "waits for a model that was not asked")
	case loop.Decide:
		return wrongIf(stopping || len(act.Calls) == 0 || slices.ContainsFunc(act.Calls, func(c *loop.Call) bool { return c.Decision != "" }), "decides what is decided, or while it stops")
	case loop.Close:
		return wrongIf(len(act.Calls) == 0 || slices.ContainsFunc(act.Calls, (*loop.Call).Flying), "closes nothing, or what flies")
	case loop.Dispatch:
		barrier := slices.ContainsFunc(act.Calls, func(c *loop.Call) bool { return !facts.Safe(c.Call.GetName()) })
		if stopping || flying || len(act.Calls) == 0 || barrier && len(act.Calls) > 1 || len(act.Calls) > facts.Parallel {
			return fmt.Errorf("dispatches %d calls; stopping %t, others fly %t, barrier %t", len(act.Calls), stopping, flying, barrier)
		}
		return wrongIf(slices.ContainsFunc(act.Calls, func(c *loop.Call) bool { return !allowed(c) }), "dispatches what was not allowed")
	case loop.AwaitTools:
		return wrongIf(len(act.Calls) == 0 || slices.ContainsFunc(act.Calls, func(c *loop.Call) bool { return !c.Flying() }), "waits for calls that do not fly")
	case loop.Suspend:
		return wrongIf(flying || stopping || len(act.Interactions) == 0 || len(act.End.GetInteractionIds()) != len(act.Interactions), "suspends while something works, or for nothing")
	case loop.End:
		return wrongIf(flying || r.Model != nil || !loop.Terminal(act.End.GetState()) || act.End.GetReason() == "", "ends while something works, or as %v", act.End)
	}
	return fmt.Errorf("the action is %v", act.Kind)
}

func allowed(c *loop.Call) bool {
	if c.Resolution != nil {
		return c.Resolution.GetResolution() == loop.Approved || c.Resolution.GetResolution() == loop.Retry
	}
	return c.Decision == loop.Allow
}

func wrongIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// soundJournal says what is wrong with the events of a run: one end at most and nothing after it, one result at most for a call, no dispatch before a decision
// that allows it.
func soundJournal(events []*threadv1.Event) error {
	over := false
	may, results := map[string]bool{}, map[string]int{}
	for _, ev := range events {
		if over {
			return fmt.Errorf("event %d follows the end", ev.GetSeq())
		}
		switch p := ev.GetPayload().GetKind().(type) {
		case *threadv1.EventPayload_RunEnded:
			over = loop.Terminal(p.RunEnded.GetState())
		case *threadv1.EventPayload_ToolDecided:
			may[p.ToolDecided.GetCallId()] = p.ToolDecided.GetDecision() == loop.Allow
		case *threadv1.EventPayload_InteractionResolved:
			how := p.InteractionResolved.GetResolution()
			may[p.InteractionResolved.GetInteractionId()[len("i-"):]] = how == loop.Approved || how == loop.Retry
		case *threadv1.EventPayload_ToolDispatched:
			if id := p.ToolDispatched.GetCallId(); !may[id] || results[id] > 0 {
				return fmt.Errorf("%s is dispatched; allowed: %t, results: %d", id, may[id], results[id])
			}
		case *threadv1.EventPayload_ToolEnded:
			id := p.ToolEnded.GetResult().GetCallId()
			if results[id]++; results[id] > 1 {
				return fmt.Errorf("%s has two results", id)
			}
		}
	}
	return nil
}

// soundConversation says what is wrong with the order of messages: calls are followed by their results, all of them and in order, before anything else.
func soundConversation(t *loop.Thread) error {
	var due []*threadv1.ToolCall
	for _, e := range t.Conversation {
		if e.Message.GetRole() != threadv1.Role_ROLE_TOOL {
			if len(due) > 0 {
				return fmt.Errorf("%s stands between calls and their results", e.Message.GetId())
			}
			due = loop.CallsOf(e.Message)
			continue
		}
		if len(e.Message.GetBlocks()) != len(due) {
			return fmt.Errorf("%d results for %d calls", len(e.Message.GetBlocks()), len(due))
		}
		for i, b := range e.Message.GetBlocks() {
			if b.GetToolResult().GetCallId() != due[i].GetId() {
				return fmt.Errorf("the result of %s stands for %s", b.GetToolResult().GetCallId(), due[i].GetId())
			}
		}
		due = nil
	}
	if len(due) > 0 && (t.Run == nil || len(t.Run.Calls) != len(due)) {
		return fmt.Errorf("%d calls have no results and are not open", len(due))
	}
	return nil
}
