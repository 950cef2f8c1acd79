package loop_test

import (
	"fmt"
	"slices"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// move is something that may happen to a thread: what the executor does for an action in one of the ways that it may turn out, what people do, the death of the
// owner.
type move struct {
	name     string
	payloads []*payload
	spends   spent
}

// spent counts what would go on for ever if it might.
type spent struct{ steers, interrupts, overflows, deaths, tasks, stops int }

func (s spent) plus(o spent) spent {
	return spent{s.steers + o.steers, s.interrupts + o.interrupts, s.overflows + o.overflows, s.deaths + o.deaths, s.tasks + o.tasks, s.stops + o.stops}
}

// world is a thread and everything around it.
type world struct {
	thread *loop.Thread
	spent  spent
	// most is how often each of spent may happen in a run.
	most spent
}

// moves lists what may happen next to the open run.
func (w *world) moves() []move {
	r := w.thread.Run
	act := w.thread.Next(facts)
	out := append(w.people(), w.executor(act)...)
	if r.State == threadv1.RunState_RUN_STATE_RUNNING && w.spent.deaths < w.most.deaths {
		out = append(out, w.death())
	}
	return out
}

// people cancel, interrupt, steer and answer whenever they like; tasks end.
func (w *world) people() []move {
	r := w.thread.Run
	var out []move
	if r.Cancel == nil && w.spent.stops < w.most.stops {
		out = append(out, move{name: "cancel", payloads: []*payload{cancel()}, spends: spent{stops: 1}})
	}
	if r.Cancel == nil && w.spent.interrupts < w.most.interrupts {
		var first []*payload
		if r.Model != nil {
			first = append(first, w.stopped())
		}
		for _, text := range []string{"", "no, this"} {
			out = append(out, move{name: "interrupt " + text, payloads: append(slices.Clone(first), steered(loop.SteerInterrupt, text)), spends: spent{interrupts: 1}})
		}
	}
	border := r.Model == nil && len(r.Calls) == 0 && r.Cancel == nil && !(r.Interrupted && r.Stop)
	if border && w.spent.steers < w.most.steers {
		out = append(out, move{name: "steer", payloads: []*payload{steered(loop.SteerSteer, "and that")}, spends: spent{steers: 1}})
	}
	for _, task := range w.thread.Tasks {
		if !task.Ended && w.thread.TakesResult(facts) {
			out = append(out, move{name: "task ends", payloads: []*payload{delivered(task.Started.GetTaskId())}})
		}
	}
	for _, c := range r.Calls {
		if c.Result != nil || !c.Waiting() {
			continue
		}
		resolutions := []string{loop.Approved, loop.Denied, loop.Expired}
		if c.Interaction.GetKind() == loop.KindUnknown {
			resolutions = []string{loop.Retry, loop.Skip, loop.Fail, loop.Expired}
		}
		for _, how := range resolutions {
			out = append(out, move{name: how, payloads: []*payload{resolvedAs(c.Call.GetId(), how)}})
		}
	}
	return out
}

// executor does what Next wants, in every way that it may turn out.
func (w *world) executor(act loop.Action) []move {
	switch act.Kind {
	case loop.Prepare:
		request := []*payload{prepared(), dispatchedModel()}
		out := []move{{name: "request", payloads: request}}
		if conversation := w.thread.Conversation; len(conversation) > 3 && w.spent.overflows < w.most.overflows {
			out = append(out, move{name: "compact, request", payloads: append([]*payload{compacted(w.cut())}, request...), spends: spent{overflows: 1}})
		}
		return out
	case loop.AwaitModel:
		return w.model()
	case loop.Decide:
		return decisions(act.Calls)
	case loop.Close:
		var closing []*payload
		for _, c := range act.Calls {
			if c.Waiting() {
				closing = append(closing, resolvedAs(c.Call.GetId(), loop.Cancelled))
			}
			closing = append(closing, result(c.Call.GetId(), closedAs(act, c), "closed"))
		}
		return []move{{name: "close", payloads: closing}}
	case loop.Dispatch:
		var sending []*payload
		for _, c := range act.Calls {
			sending = append(sending, sent(c.Call.GetId()))
		}
		return []move{{name: "dispatch", payloads: sending}}
	case loop.AwaitTools:
		return w.tools(act.Calls)
	case loop.Suspend:
		return []move{{name: "suspend", payloads: []*payload{ended(act.End)}}}
	case loop.End:
		return []move{{name: "end " + act.End.GetReason(), payloads: []*payload{ended(act.End)}}}
	}
	return nil
}

// model answers, breaks off, or finds the request too long.
func (w *world) model() []move {
	r := w.thread.Run
	id := messageID(r)
	out := []move{
		{name: "text", payloads: []*payload{answer(id, "done")}},
		{name: "blank", payloads: []*payload{answer(id, " ")}},
		{name: "model fails", payloads: []*payload{ended(&threadv1.RunEnded{State: threadv1.RunState_RUN_STATE_FAILED, Reason: "model_error"})}},
	}
	if w.thread.Stopping(facts) {
		out = append(out, move{name: "model stops", payloads: []*payload{w.stopped()}})
	}
	if r.Step <= r.Settings.MaxSteps {
		for _, tools := range [][]string{{"read"}, {"write"}, {"read", "read"}, {"read", "write"}, {"write", "read"}} {
			out = append(out, move{name: fmt.Sprint("calls ", tools), payloads: []*payload{answer(id, "", tools...)}})
		}
	}
	if w.spent.overflows < w.most.overflows && len(w.thread.Conversation) > 1 {
		out = append(out, move{name: "overflow", payloads: []*payload{retried(), compacted(w.cut()), prepared(), dispatchedModel()}, spends: spent{overflows: 1}})
	}
	return out
}

// tools give results, one at a time.
func (w *world) tools(flying []*loop.Call) []move {
	var out []move
	for _, c := range flying {
		id := c.Call.GetId()
		out = append(out, move{name: "ok", payloads: []*payload{result(id, ok, "fine")}}, move{name: "error", payloads: []*payload{result(id, failed, "no")}})
		if w.thread.Stopping(facts) {
			out = append(out, move{name: "call stops", payloads: []*payload{result(id, threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, "stopped")}})
		}
		if c.Call.GetName() == "write" && w.spent.tasks < w.most.tasks {
			out = append(out, move{name: "starts a task", payloads: []*payload{taskStarted("task/" + id), result(id, ok, "started")}, spends: spent{tasks: 1}})
		}
	}
	return out
}

// death is a take-over by another owner: what may be made again is, about the rest a person is asked.
func (w *world) death() move {
	r := w.thread.Run
	out := move{name: "the owner dies", payloads: []*payload{takenOver()}, spends: spent{deaths: 1}}
	if r.Model != nil {
		out.payloads = append(out.payloads, retried())
		if w.thread.Stopping(facts) {
			out.payloads = append(out.payloads, w.stopped())
		} else {
			out.payloads = append(out.payloads, prepared(), dispatchedModel())
		}
	}
	for _, c := range r.Calls {
		if c.Flying() && c.Call.GetName() == "write" {
			out.payloads = append(out.payloads, askedAs(c.Call.GetId(), loop.KindUnknown))
		}
	}
	return out
}

func (w *world) stopped() *payload {
	p := answer(messageID(w.thread.Run), "so f")
	p.GetModelEnded().FinishReason = loop.FinishInterrupted
	return p
}

// cut is a place where the front of the conversation may end: behind an answer or the results of its calls.
func (w *world) cut() int64 {
	cut := int64(0)
	for _, e := range w.thread.Conversation[:len(w.thread.Conversation)-1] {
		if e.Message.GetRole() == threadv1.Role_ROLE_TOOL || len(loop.CallsOf(e.Message)) == 0 {
			cut = e.Seq
		}
	}
	return cut
}

// decisions are all that policy may say of the calls.
func decisions(calls []*loop.Call) []move {
	out := []move{{name: "decide"}}
	for _, c := range calls {
		id := c.Call.GetId()
		var next []move
		for _, m := range out {
			for _, d := range []string{loop.Allow, loop.Deny, loop.Ask} {
				with := append(slices.Clone(m.payloads), decided(id, d))
				if d == loop.Ask {
					with = append(with, asked(id))
				}
				next = append(next, move{name: m.name + " " + d, payloads: with})
			}
		}
		out = next
	}
	return out
}

// closedAs is the status of a call that is closed without being made.
func closedAs(act loop.Action, c *loop.Call) threadv1.ToolStatus {
	if act.Status != threadv1.ToolStatus_TOOL_STATUS_UNSPECIFIED {
		return act.Status
	}
	if c.Resolution.GetResolution() == loop.Skip {
		return threadv1.ToolStatus_TOOL_STATUS_UNKNOWN
	}
	return threadv1.ToolStatus_TOOL_STATUS_DENIED
}

func messageID(r *loop.Run) string { return fmt.Sprintf("%s/m%d", r.ID, r.Step) }

func askedAs(call, kind string) *payload {
	p := asked(call)
	p.GetInteractionRequested().Interaction.Kind = kind
	return p
}

func ended(p *threadv1.RunEnded) *payload {
	return &payload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: p}}
}

func retried() *payload {
	return &payload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: &threadv1.ModelRetried{Attempt: 1}}}
}

func takenOver() *payload {
	return &payload{Kind: &threadv1.EventPayload_RecoveryTakenOver{RecoveryTakenOver: &threadv1.RecoveryTakenOver{FromOwner: "r1/a", ToOwner: "r2/b"}}}
}

func compacted(through int64) *payload {
	return &payload{Kind: &threadv1.EventPayload_CompactionApplied{CompactionApplied: &threadv1.CompactionApplied{
		ThroughSeq: through, Summary: loop.Text("summary", threadv1.Role_ROLE_USER, loop.OriginSummary, "what was said"),
	}}}
}

func taskStarted(id string) *payload {
	return &payload{Kind: &threadv1.EventPayload_TaskStarted{TaskStarted: &threadv1.TaskStarted{TaskId: id, Agent: "general-purpose"}}}
}

func delivered(task string) *payload {
	return &payload{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: &threadv1.TaskDelivered{TaskId: task, State: "COMPLETED", Text: "found", MessageId: "mail/" + task}}}
}
