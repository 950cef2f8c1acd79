package main

import (
	"fmt"
	"strings"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

type payload = threadv1.EventPayload

// steps makes the events of one long run that calls a tool in every step, n of them, and the thread that they lead to. after sees the thread before each next event and may
// put one of its own there.
func steps(b *measure.B, n int, after func(t *loop.Thread) *payload) (*loop.Thread, []*threadv1.Event) {
	t := &loop.Thread{}
	var events []*threadv1.Event
	add := func(p *payload) {
		ev := &threadv1.Event{Schema: 1, Id: fmt.Sprint("1.", len(events)), Type: journal.TypeOf(p), RunId: "r", Seq: t.Seq + 1, Payload: p}
		if p.GetCheckpointWritten() != nil {
			ev.RunId = ""
		}
		b.Must(t.Apply(ev))
		events = append(events, ev)
	}
	add(&payload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{Cause: "call"}}})
	add(&payload{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{Message: loop.Text("in", threadv1.Role_ROLE_USER, "", "tidy up")}}})
	for step := 0; len(events) < n; step++ {
		for _, p := range stepOf(step) {
			if len(events) == n {
				break
			}
			if own := after(t); own != nil {
				add(own)
				continue
			}
			add(p)
		}
	}
	return t, events
}

// stepOf are the events of one step.
func stepOf(step int) []*payload {
	id := fmt.Sprintf("r/m%d", step)
	call := &threadv1.ToolCall{Id: id + "/c0", Name: "read_file", ArgumentsJson: fmt.Sprintf(`{"path":"notes/%d.md"}`, step)}
	answer := loop.Text(id, threadv1.Role_ROLE_ASSISTANT, "", "Let me look at the next one.")
	answer.Blocks = append(answer.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{ToolCall: call}})
	return []*payload{
		{Kind: &threadv1.EventPayload_StepStarted{StepStarted: &threadv1.StepStarted{}}},
		{Kind: &threadv1.EventPayload_RequestPrepared{RequestPrepared: &threadv1.RequestPrepared{Tokens: 900}}},
		{Kind: &threadv1.EventPayload_ModelDispatched{ModelDispatched: &threadv1.ModelDispatched{MessageId: id, Attempt: 1}}},
		{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: &threadv1.ModelEnded{Message: answer, FinishReason: "tool_calls", Usage: &threadv1.Usage{InputTokens: 900, Requests: 1}}}},
		{Kind: &threadv1.EventPayload_ToolRequested{ToolRequested: &threadv1.ToolRequested{Call: call}}},
		{Kind: &threadv1.EventPayload_ToolDecided{ToolDecided: &threadv1.ToolDecided{CallId: call.GetId(), Decision: loop.Allow}}},
		{Kind: &threadv1.EventPayload_ToolDispatched{ToolDispatched: &threadv1.ToolDispatched{CallId: call.GetId(), Name: call.GetName(), EffectKind: "files"}}},
		{Kind: &threadv1.EventPayload_ToolEnded{ToolEnded: &threadv1.ToolEnded{Result: &threadv1.ToolResult{
			CallId: call.GetId(), Name: call.GetName(), Status: threadv1.ToolStatus_TOOL_STATUS_OK, Text: strings.Repeat("what is in the file. ", 20),
		}}}},
	}
}

func nothing(*loop.Thread) *payload { return nil }
