package loop

import (
	"fmt"
	"slices"
	"strconv"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// threadDomain is the domain of the errors of journals.
const threadDomain = "gantry.thread.v1"

// Apply folds one event into the projection. Events come in order, without gaps. An event of an unknown type that is required, or of a newer schema, is
// FAILED_PRECONDITION/SCHEMA_UNKNOWN: the thread can't be worked on by this version.
func (t *Thread) Apply(ev *threadv1.Event) error {
	if ev.GetSeq() != t.Seq+1 {
		return errdefs.New(errdefs.ErrDataLoss, threadDomain, "JOURNAL_DAMAGED", "event %d follows event %d", ev.GetSeq(), t.Seq).
			With("seq", strconv.FormatInt(ev.GetSeq(), 10))
	}
	if ev.GetRequired() && (ev.GetSchema() > Schema || !known(ev.GetPayload())) && !ev.GetRedacted() {
		return errdefs.New(errdefs.ErrFailedPrecondition, threadDomain, "SCHEMA_UNKNOWN", "the journal holds an event of type %q and schema %d, which this version does not know",
			ev.GetType(), ev.GetSchema()).With("type", ev.GetType()).With("schema", strconv.FormatUint(uint64(ev.GetSchema()), 10))
	}
	if ev.GetPayload() == nil {
		t.Seq = ev.GetSeq()
		return nil // a tombstone
	}
	r := t.Run
	if err := t.fold(ev); err != nil {
		return err // before anything has changed
	}
	t.Seq = ev.GetSeq()
	for _, touched := range []*Run{r, t.Run} {
		if touched != nil && touched.ID == ev.GetRunId() {
			touched.LastSeq = ev.GetSeq()
		}
	}
	return nil
}

func known(p *threadv1.EventPayload) bool {
	switch p.GetKind().(type) {
	case nil, *threadv1.EventPayload_Other:
		return false
	}
	return true
}

func (t *Thread) fold(ev *threadv1.Event) error {
	switch p := ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RunStarted:
		return t.runStarted(ev, p.RunStarted)
	case *threadv1.EventPayload_RunEnded:
		t.runEnded(ev, p.RunEnded)
	case *threadv1.EventPayload_InputReceived:
		t.say(ev, p.InputReceived.GetMessage())
	case *threadv1.EventPayload_MessageAppended:
		t.say(ev, p.MessageAppended.GetMessage())
	case *threadv1.EventPayload_ThreadRewound:
		return &Rewinding{p.ThreadRewound.GetToSeq()}
	case *threadv1.EventPayload_CompactionApplied:
		t.compacted(ev, p.CompactionApplied)
	case *threadv1.EventPayload_TaskStarted:
		t.taskStarted(ev, p.TaskStarted)
	case *threadv1.EventPayload_TaskDelivered:
		t.taskDelivered(ev, p.TaskDelivered)
	case *threadv1.EventPayload_TodoChanged:
		t.Todos = p.TodoChanged.GetItems()
	case *threadv1.EventPayload_PlanChanged:
		t.planChanged(p.PlanChanged)
	case *threadv1.EventPayload_PermissionChanged:
		if m := p.PermissionChanged.GetMode(); m != "" {
			t.Mode = m
		}
		if rule := p.PermissionChanged.GetAddedRule(); rule != "" && !slices.Contains(t.Rules, rule) {
			t.Rules = append(t.Rules, rule)
		}
	default:
		return t.foldRun(ev)
	}
	return nil
}

// foldRun folds the events that only make sense inside the open run.
func (t *Thread) foldRun(ev *threadv1.Event) error {
	r := t.Run
	if r == nil || r.ID != ev.GetRunId() {
		return nil // of a run that is not open, or optional and not for the state
	}
	switch p := ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RequestPrepared:
		if r.Model == nil { // else the same step is asked for again
			r.Step++
		}
		r.Interrupted, r.Blank = false, false
		r.Model = &ModelCall{PreparedSeq: ev.GetSeq()}
	case *threadv1.EventPayload_ModelDispatched:
		if r.Model == nil {
			return fmt.Errorf("event %d: a model request was dispatched that was not prepared", ev.GetSeq())
		}
		r.Model.MessageID, r.Model.Attempt, r.Model.Model = p.ModelDispatched.GetMessageId(), p.ModelDispatched.GetAttempt(), p.ModelDispatched.GetModel()
	case *threadv1.EventPayload_ModelRetried:
		if r.Model != nil {
			r.Model.Attempt = p.ModelRetried.GetAttempt() + 1
		}
	case *threadv1.EventPayload_ModelEnded:
		t.modelEnded(ev, p.ModelEnded)
	case *threadv1.EventPayload_ToolRequested:
		t.toolRequested(ev, p.ToolRequested)
	case *threadv1.EventPayload_ToolDecided:
		if c := r.Call(p.ToolDecided.GetCallId()); c != nil {
			c.Decision, c.Rule = p.ToolDecided.GetDecision(), p.ToolDecided.GetRule()
			if edited := p.ToolDecided.GetEditedArgumentsJson(); edited != "" {
				c.Arguments = edited
			}
		}
	case *threadv1.EventPayload_ToolDispatched:
		if c := r.Call(p.ToolDispatched.GetCallId()); c != nil {
			c.Dispatched = p.ToolDispatched
			c.Dispatches++
		}
	case *threadv1.EventPayload_ToolEnded:
		t.toolEnded(ev, p.ToolEnded.GetResult())
	case *threadv1.EventPayload_InteractionRequested:
		if c := r.Call(p.InteractionRequested.GetInteraction().GetCall().GetId()); c != nil {
			c.Interaction, c.Resolution = p.InteractionRequested.GetInteraction(), nil
		}
	case *threadv1.EventPayload_InteractionResolved:
		r.interactionResolved(p.InteractionResolved)
	case *threadv1.EventPayload_SteerApplied:
		t.steered(ev, p.SteerApplied)
	case *threadv1.EventPayload_CancelRequested:
		if r.Cancel == nil {
			r.Cancel = p.CancelRequested
		}
		r.State = threadv1.RunState_RUN_STATE_RUNNING
	}
	return nil
}

func (t *Thread) runStarted(ev *threadv1.Event, p *threadv1.RunStarted) error {
	settings, err := ParseSettings(p.GetSettings())
	if err != nil {
		return fmt.Errorf("event %d: %w", ev.GetSeq(), err)
	}
	if t.Run != nil {
		return fmt.Errorf("event %d: run %s starts while run %s is open", ev.GetSeq(), ev.GetRunId(), t.Run.ID)
	}
	t.know(ev.GetRunId())
	t.Run = &Run{
		ID: ev.GetRunId(), TurnID: ev.GetTurnId(), Started: p, Settings: settings, StartTime: ev.GetTime().AsTime(), FirstSeq: ev.GetSeq(),
		State: threadv1.RunState_RUN_STATE_RUNNING, Usage: &threadv1.Usage{},
	}
	return nil
}

func (t *Thread) runEnded(ev *threadv1.Event, p *threadv1.RunEnded) {
	t.know(ev.GetRunId())
	r := t.Run
	if r == nil || r.ID != ev.GetRunId() {
		return // a run that was refused or cancelled before it started
	}
	r.State, r.Ended, r.EndTime = p.GetState(), p, ev.GetTime().AsTime()
	if !Terminal(p.GetState()) {
		return
	}
	r.Model, r.LastSeq, r.failures = nil, ev.GetSeq(), nil
	t.Latest, t.Run = r, nil
	t.closeCalls(ev, r)
}

// closeCalls keeps the conversation whole when a run ends with calls that have no result: a failed run may.
func (t *Thread) closeCalls(ev *threadv1.Event, r *Run) {
	if len(r.Calls) == 0 {
		return
	}
	for _, c := range r.Open() {
		c.Result = &threadv1.ToolResult{
			CallId: c.Call.GetId(), Name: c.Call.GetName(), Status: threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED,
			Text: "The run ended before this call had a result.", Reason: "RUN_ENDED",
		}
	}
	t.joinResults(ev, r)
}

func (t *Thread) modelEnded(ev *threadv1.Event, p *threadv1.ModelEnded) {
	r := t.Run
	prepared := int64(0)
	if r.Model != nil {
		prepared = r.Model.PreparedSeq
	}
	r.Model = nil
	r.Finish = p.GetFinishReason()
	AddUsage(r.Usage, p.GetUsage())
	text, calls := TextOf(p.GetMessage()), CallsOf(p.GetMessage())
	if len(p.GetMessage().GetBlocks()) > 0 && (text != "" || len(calls) > 0) {
		t.say(ev, p.GetMessage())
	}
	r.Text = text
	r.Calls, r.CallMessage = nil, ""
	for i, call := range calls {
		t.knowCall(call.GetId())
		r.Calls = append(r.Calls, &Call{Call: call, Ordinal: int32(i), RequestSeq: prepared, Arguments: call.GetArgumentsJson()})
		r.CallMessage = p.GetMessage().GetId()
	}
	interrupted := r.Finish == FinishInterrupted
	r.Blank = isBlank(text) && len(calls) == 0 && !interrupted
	r.Answered = !isBlank(text) && len(calls) == 0 && !interrupted
	if r.Blank {
		r.Blanks++
	} else {
		r.Blanks = 0
	}
}

func (t *Thread) toolRequested(ev *threadv1.Event, p *threadv1.ToolRequested) {
	if c := t.Run.Call(p.GetCall().GetId()); c != nil {
		c.Ordinal = p.GetOrdinal()
	}
}

func (t *Thread) toolEnded(ev *threadv1.Event, result *threadv1.ToolResult) {
	r := t.Run
	c := r.Call(result.GetCallId())
	if c == nil || c.Result != nil {
		return
	}
	c.Result = result
	if r.repeat(c) {
		r.stuck = c.Call.GetName()
	}
	if len(r.Open()) == 0 {
		t.joinResults(ev, r)
	}
}

// joinResults makes the message that answers the calls of the step, in the order of the calls, and lets the messages follow that had to wait for it.
func (t *Thread) joinResults(ev *threadv1.Event, r *Run) {
	m := &threadv1.Message{Id: r.CallMessage + "/results", Role: threadv1.Role_ROLE_TOOL}
	for _, c := range r.Calls {
		m.Blocks = append(m.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolResult{ToolResult: c.Result}})
	}
	r.Calls, r.CallMessage = nil, ""
	t.Conversation = append(t.Conversation, Entry{m, ev.GetSeq(), r.ID})
	for _, e := range t.held {
		e.Seq = ev.GetSeq()
		t.Conversation = append(t.Conversation, e)
	}
	t.held = nil
}

func (r *Run) interactionResolved(p *threadv1.InteractionResolved) {
	c := r.ByInteraction(p.GetInteractionId())
	if c == nil || c.Resolution != nil {
		return
	}
	c.Resolution = p
	if p.GetResolution() == Retry {
		c.Dispatched = nil
	}
	r.State = threadv1.RunState_RUN_STATE_RUNNING
}

func (t *Thread) steered(ev *threadv1.Event, p *threadv1.SteerApplied) {
	r := t.Run
	if p.GetKind() == SteerInterrupt { // it ends a suspension, for it closes what was waited for; other texts wait
		r.State = threadv1.RunState_RUN_STATE_RUNNING
		r.Interrupted = true
		r.Stop = TextOf(p.GetMessage()) == "" && len(p.GetMessage().GetBlocks()) == 0
	}
	if len(p.GetMessage().GetBlocks()) > 0 {
		t.say(ev, p.GetMessage())
		r.Answered, r.Blank = false, false
	}
}

// say appends a message to the conversation; while calls are open it waits for their results.
func (t *Thread) say(ev *threadv1.Event, m *threadv1.Message) {
	if m == nil || len(m.GetBlocks()) == 0 {
		return
	}
	e := Entry{m, ev.GetSeq(), ev.GetRunId()}
	if t.Run != nil && len(t.Run.Calls) > 0 {
		t.held = append(t.held, e)
		return
	}
	t.Conversation = append(t.Conversation, e)
}

func (t *Thread) compacted(ev *threadv1.Event, p *threadv1.CompactionApplied) {
	// The summary stands where the messages stood that it replaces, so that the next one takes it in.
	kept := []Entry{{p.GetSummary(), p.GetThroughSeq(), ev.GetRunId()}}
	for _, e := range t.Conversation {
		if e.Seq > p.GetThroughSeq() {
			kept = append(kept, e)
		}
	}
	t.Conversation = kept
}

func (t *Thread) taskStarted(ev *threadv1.Event, p *threadv1.TaskStarted) {
	if t.task(p.GetTaskId()) >= 0 {
		return // a call that was made again found the task that it had made
	}
	t.Tasks = append(t.Tasks, Task{Started: p, RunID: ev.GetRunId()})
	if t.Run != nil {
		t.Run.Children++
	}
}

// taskDelivered closes a task. What came by mail becomes a message; what a tool call returned is in its result already.
func (t *Thread) taskDelivered(ev *threadv1.Event, p *threadv1.TaskDelivered) {
	if i := t.task(p.GetTaskId()); i >= 0 {
		t.Tasks = slices.Clone(t.Tasks) // others may hold the list
		t.Tasks[i].Ended = true
		t.forgetTasks()
	}
	if p.GetMessageId() != "" {
		t.say(ev, taskMessage(p))
	}
}

func (t *Thread) planChanged(p *threadv1.PlanChanged) {
	switch p.GetChange() {
	case "entered":
		t.Planning = true
	case "exited":
		t.Planning = false
	}
	if p.GetPath() != "" {
		t.PlanPath = p.GetPath()
	}
}
