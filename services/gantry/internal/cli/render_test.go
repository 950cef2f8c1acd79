package cli

import (
	"strings"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

func delta(id string, offset int64, text string) *orchestratorv1.RunEvent {
	return &orchestratorv1.RunEvent{Item: &orchestratorv1.RunEvent_Delta{Delta: &orchestratorv1.TextDelta{MessageId: id, Attempt: 1, OffsetBytes: offset, Text: text}}}
}

func journaled(p *threadv1.EventPayload) *orchestratorv1.RunEvent {
	return &orchestratorv1.RunEvent{Item: &orchestratorv1.RunEvent_Event{Event: &threadv1.Event{Payload: p}}}
}

func answer(id, text string) *orchestratorv1.RunEvent {
	return journaled(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: &threadv1.ModelEnded{Attempt: 1, Message: &threadv1.Message{
		Id: id, Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: text}}},
	}}}})
}

func rendered(events ...*orchestratorv1.RunEvent) string {
	var b strings.Builder
	r := NewRenderer(&b)
	for _, e := range events {
		r.Event(e)
	}
	return b.String()
}

func TestTextIsShownOnceHoweverItComes(t *testing.T) {
	tests := map[string][]*orchestratorv1.RunEvent{
		"in pieces, then whole":          {delta("m", 0, "hel"), delta("m", 3, "lo"), answer("m", "hello")},
		"whole only, as after an attach": {answer("m", "hello")},
		"a piece is missing":             {delta("m", 0, "he"), delta("m", 4, "o"), answer("m", "hello")},
		"a piece comes twice":            {delta("m", 0, "he"), delta("m", 0, "he"), delta("m", 2, "llo"), answer("m", "hello")},
		"a child's text is not ours": {delta("m", 0, "hello"),
			{Item: &orchestratorv1.RunEvent_Delta{Delta: &orchestratorv1.TextDelta{MessageId: "c", Source: "critic", Text: "noise"}}}, answer("m", "hello")},
	}
	for name, events := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rendered(events...); got != "hello\n" {
				t.Errorf("shown: %q", got)
			}
		})
	}
}

func TestEachThingIsALineOfItsOwn(t *testing.T) {
	call := &threadv1.ToolDispatched{Name: "write_file", ArgumentsJson: `{"path":"a.txt","content":"line one\nline two"}`}
	got := rendered(
		delta("m", 0, "I will write"), answer("m", "I will write"),
		journaled(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolDispatched{ToolDispatched: call}}),
		journaled(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolEnded{ToolEnded: &threadv1.ToolEnded{Result: &threadv1.ToolResult{
			Name: "write_file", Status: threadv1.ToolStatus_TOOL_STATUS_DENIED, Reason: "POLICY", Text: "no\nwrites",
		}}}}),
		&orchestratorv1.RunEvent{Item: &orchestratorv1.RunEvent_Terminal{Terminal: &orchestratorv1.RunTerminal{Outcome: "failed", Run: &orchestratorv1.Run{Steps: 2, Reason: "model_error", Message: "gone"}}}},
	)
	want := "I will write\n" +
		"> write_file content=line one line two path=a.txt\n" +
		"< write_file denied POLICY: no writes\n" +
		"= failed: 2 steps, 0 tokens in, 0 out (model_error) gone\n"
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
