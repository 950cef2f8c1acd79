package loop

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Kind discriminates actions.
type Kind uint8

// The kinds of actions.
const (
	// Idle: no run is open, or the open one is suspended.
	Idle Kind = iota
	// Prepare: compile the next model request, commit it, send it. Final: without tools, as the last one. Remind: the last answer was blank.
	Prepare
	// AwaitModel: a request is on its way.
	AwaitModel
	// Decide: ask the policy about Calls.
	Decide
	// Close: Calls get the result that follows from what is journaled, or from Status and Reason.
	Close
	// Dispatch: send Calls, after the dispatches are committed.
	Dispatch
	// AwaitTools: calls are on their way.
	AwaitTools
	// Suspend: nothing works; Interactions wait for answers.
	Suspend
	// End: the run is over, as End says.
	End
)

var kindNames = [...]string{"idle", "prepare", "await_model", "decide", "close", "dispatch", "await_tools", "suspend", "end"}

func (k Kind) String() string { return kindNames[k] }

// Action is what the open run needs.
type Action struct {
	Kind   Kind
	Final  bool
	Remind bool
	Calls  []*Call
	// Status and Reason are for Close: the status of calls that are closed because the run stops. Unspecified: each call's own.
	Status       threadv1.ToolStatus
	Reason       string
	Interactions []*threadv1.Interaction
	End          *threadv1.RunEnded
}

// Facts are what a decision depends on beside the journal.
type Facts struct {
	// Now is for the wall-time budget.
	Now time.Time
	// Safe says whether calls of the tool may run beside others.
	Safe func(tool string) bool
	// Parallel bounds the calls that run at once. 0: DefaultParallel.
	Parallel int
}

// DefaultParallel is how many calls of one step run at once.
const DefaultParallel = 16

// Reasons of run/ended.
const (
	ReasonDone        = "done"
	ReasonMaxSteps    = "max_steps"
	ReasonLength      = "length"
	ReasonFiltered    = "content_filter"
	ReasonInterrupted = "interrupted"
	ReasonCancelled   = "cancelled"
	ReasonRepeated    = "repeated_failure"
	ReasonInteraction = "interaction"
	ReasonRefused     = "refused_by_person"
	ReasonUnknown     = "outcome_unknown"
	ReasonTokens      = "budget_tokens"
	ReasonCost        = "budget_cost"
	ReasonWallTime    = "budget_wall_time"
)

// Next says what the open run needs now.
func (t *Thread) Next(f Facts) Action {
	r := t.Run
	if r == nil {
		return Action{Kind: Idle}
	}
	stop := r.stopping(f)
	if r.Model != nil {
		// A stop reaches a model request through the executor, which ends it; until then it is on its way.
		return Action{Kind: AwaitModel}
	}
	if len(r.Calls) > 0 {
		return r.nextCalls(f, stop)
	}
	if stop != nil {
		return Action{Kind: End, End: stop}
	}
	return r.nextStep()
}

// Stopping says whether what works must be given up now: a cancel, an interrupt or a budget.
func (t *Thread) Stopping(f Facts) bool {
	return t.Run != nil && (t.Run.Interrupted || t.Run.stopping(f) != nil)
}

// TakesResult says whether a task's result may join the conversation of the open run now: while it is suspended, or between two of its steps. A run that is
// about to end would put the result where no model request follows, so that nobody reads it and nothing wakes the thread for it.
func (t *Thread) TakesResult(f Facts) bool {
	if t.Run.State != threadv1.RunState_RUN_STATE_RUNNING {
		return true
	}
	return t.Next(f).Kind == Prepare
}

// stopping returns the end that the run is heading for whatever its calls do; nil when there is none.
func (r *Run) stopping(f Facts) *threadv1.RunEnded {
	s := r.Settings
	spent := r.Usage.GetInputTokens() + r.Usage.GetOutputTokens()
	switch {
	case r.Cancel != nil:
		return r.end(threadv1.RunState_RUN_STATE_CANCELLED, ReasonCancelled, r.Cancel.GetReason())
	case r.Interrupted && r.Stop:
		return r.end(threadv1.RunState_RUN_STATE_COMPLETED, ReasonInterrupted, "")
	case r.Answered:
		return nil // the answer is there: what it cost does not take it back
	case s.Tokens > 0 && spent >= s.Tokens:
		return r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonTokens, fmt.Sprintf("the run used %d tokens of the %d that it may use", spent, s.Tokens))
	case s.CostMicros > 0 && r.Usage.GetCostMicros() >= s.CostMicros:
		return r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonCost, fmt.Sprintf("the run cost %d millionths of the %d that it may cost", r.Usage.GetCostMicros(), s.CostMicros))
	case s.WallTimeMillis > 0 && !f.Now.IsZero() && f.Now.Sub(r.StartTime) >= s.WallTime():
		return r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonWallTime, fmt.Sprintf("the run has worked for the %s that it may work", s.WallTime()))
	}
	return nil
}

// nextCalls drives the calls of the step.
func (r *Run) nextCalls(f Facts, stop *threadv1.RunEnded) Action {
	by := map[stage][]*Call{}
	for _, c := range r.Calls {
		s := c.stage()
		by[s] = append(by[s], c)
	}
	if stop != nil || r.Interrupted {
		return r.giveUp(by)
	}
	switch {
	case len(by[stageFailing]) > 0:
		if flying := by[stageFlying]; len(flying) > 0 {
			return Action{Kind: AwaitTools, Calls: flying}
		}
		c := by[stageFailing][0]
		if c.Resolution.GetActor() == ActorSetting {
			return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonUnknown, fmt.Sprintf("the outcome of %s is unknown, and the run is set to fail then", c.Call.GetName()))}
		}
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonRefused, fmt.Sprintf("the outcome of %s is unknown and the answer was to fail", c.Call.GetName()))}
	case len(by[stageUndecided]) > 0:
		return Action{Kind: Decide, Calls: by[stageUndecided]}
	case len(by[stageClosing]) > 0:
		return Action{Kind: Close, Calls: by[stageClosing]}
	case len(by[stageFlying]) > 0:
		return Action{Kind: AwaitTools, Calls: by[stageFlying]}
	case len(by[stageReady]) > 0:
		return Action{Kind: Dispatch, Calls: wave(by[stageReady], f)}
	}
	if r.State == threadv1.RunState_RUN_STATE_SUSPENDED {
		return Action{Kind: Idle}
	}
	open := r.Interactions()
	ended := r.end(threadv1.RunState_RUN_STATE_SUSPENDED, ReasonInteraction, "")
	for _, i := range open {
		ended.InteractionIds = append(ended.InteractionIds, i.GetId())
	}
	return Action{Kind: Suspend, Interactions: open, End: ended}
}

// giveUp closes every call that does not fly; those that do are stopped by the executor and end on their own.
func (r *Run) giveUp(by map[stage][]*Call) Action {
	var closing []*Call
	for _, c := range r.Calls {
		if s := c.stage(); s != stageDone && s != stageFlying {
			closing = append(closing, c)
		}
	}
	if len(closing) > 0 {
		reason := "INTERRUPTED"
		if r.Cancel != nil {
			reason = "CANCELLED"
		}
		return Action{Kind: Close, Calls: closing, Status: threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, Reason: reason}
	}
	return Action{Kind: AwaitTools, Calls: by[stageFlying]}
}

// wave is the longest run of calls, from the first that is ready, that may work at once. A call that is not safe is a barrier: it works alone.
func wave(ready []*Call, f Facts) []*Call {
	limit := f.Parallel
	if limit <= 0 {
		limit = DefaultParallel
	}
	safe := func(c *Call) bool { return f.Safe != nil && f.Safe(c.Call.GetName()) }
	if !safe(ready[0]) {
		return ready[:1]
	}
	n := 1
	for n < len(ready) && n < limit && safe(ready[n]) {
		n++
	}
	return ready[:n]
}

// nextStep decides between another request and the end. No call is open.
func (r *Run) nextStep() Action {
	if r.stuck != "" {
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonRepeated,
			fmt.Sprintf("the same call of %s failed %d times in the same way", r.stuck, RepeatLimit))}
	}
	final := r.Step > r.Settings.MaxSteps // the last request was the summarising one
	switch {
	case r.Answered && r.Finish == ReasonLength:
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_COMPLETED, ReasonLength, "")}
	case final:
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_COMPLETED, ReasonMaxSteps, "")}
	case r.Answered:
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_COMPLETED, ReasonDone, "")}
	case r.Blank && r.Finish == ReasonFiltered:
		return Action{Kind: End, End: r.end(threadv1.RunState_RUN_STATE_FAILED, ReasonFiltered, "the provider withheld the answer")}
	}
	return Action{Kind: Prepare, Final: r.Step >= r.Settings.MaxSteps, Remind: r.Blank}
}

func (r *Run) end(state threadv1.RunState, reason, message string) *threadv1.RunEnded {
	return &threadv1.RunEnded{State: state, Reason: reason, Message: message, Text: r.Text, Usage: proto.CloneOf(r.Usage), Steps: int32(r.Step)}
}
