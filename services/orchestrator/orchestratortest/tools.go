package orchestratortest

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

var toolCases = map[string]func(testkit.T, *kit){
	"bad names and arguments are results":     testBadCalls,
	"a call that came twice is made once":     testTwins,
	"a failing tool does not end the run":     testToolError,
	"results in the order of the calls":       testResultOrder,
	"denied by a rule":                        testDenied,
	"explore changes nothing":                 testExplore,
	"a tool that the call takes away is gone": testTakenAway,
}

func testBadCalls(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("wrong")))
	wantState(t, r.terminal.GetRun(), completed, "done")
	res := r.results()
	if len(res) != 4 {
		t.Fatalf("%d results", len(res))
	}
	for _, x := range res {
		if x.GetStatus() != threadv1.ToolStatus_TOOL_STATUS_ERROR || x.GetReason() == "" || x.GetText() == "" {
			t.Errorf("a result is %v", x)
		}
	}
	if !contains(res[0].GetText(), "write_file") {
		t.Errorf("the unknown tool is answered by %q", res[0].GetText())
	}
}

func testTwins(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("twice")))
	if res := r.results(); len(res) != 1 {
		t.Errorf("results: %v", res)
	}
}

func testToolError(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("peek")))
	wantState(t, r.terminal.GetRun(), completed, "done")
	if res := r.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_ERROR {
		t.Errorf("results: %v", res)
	}
}

func testResultOrder(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.call(t, ctx, text("both"))
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 4 {
		t.Fatalf("messages: %v, %v", list, err)
	}
	blocks := list.GetMessages()[2].GetMessage().GetBlocks()
	if len(blocks) != 2 || !contains(blocks[0].GetToolResult().GetText(), "a.txt") || !contains(blocks[1].GetToolResult().GetText(), "b.txt") {
		t.Errorf("results: %v", blocks)
	}
}

func testDenied(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), &orchestratorv1.RunInput{Text: "keep it", Spec: &orchestratorv1.AgentSpec{PolicyMode: "bypass", PolicyRules: []string{"deny write_file"}}}))
	if res := r.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_DENIED {
		t.Errorf("results: %v", res)
	}
}

func testExplore(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), &orchestratorv1.RunInput{Text: "keep it", Spec: &orchestratorv1.AgentSpec{PolicyMode: "explore"}}))
	if res := r.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_DENIED {
		t.Errorf("results: %v", res)
	}
}

func testTakenAway(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, &orchestratorv1.RunInput{Text: "keep it", Spec: &orchestratorv1.AgentSpec{DenyTools: []string{"write_file"}}}))
	if res := r.results(); len(res) != 1 || res[0].GetReason() != "TOOL_UNKNOWN" {
		t.Errorf("results: %v", res)
	}
	for _, ev := range r.events {
		for _, name := range ev.GetPayload().GetRequestPrepared().GetTools() {
			if name == "write_file" {
				t.Errorf("write_file was offered")
			}
		}
	}
}

var limitCases = map[string]func(testkit.T, *kit){
	"steps, and one last summary":     testMaxSteps,
	"the same failure, three times":   testRepetition,
	"blank answers are reminded of":   testReminder,
	"blank at the limit":              testBlankAtLimit,
	"tokens":                          testTokenBudget,
	"wall time":                       testWallTime,
	"structured output":               testStructured,
	"structured output that is wrong": testStructuredWrong,
}

func limited(s string, spec *orchestratorv1.AgentSpec) *orchestratorv1.RunInput {
	return &orchestratorv1.RunInput{Text: s, Spec: spec}
}

func testMaxSteps(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, limited("busybody", &orchestratorv1.AgentSpec{MaxSteps: 3})))
	run := r.terminal.GetRun()
	wantState(t, run, completed, "max_steps")
	if run.GetSteps() != 4 || run.GetText() != "This is how far I came." || len(r.results()) != 3 {
		t.Errorf("%d steps, %d results, text %q", run.GetSteps(), len(r.results()), run.GetText())
	}
	var last *threadv1.RequestPrepared
	for _, ev := range r.events {
		if p := ev.GetPayload().GetRequestPrepared(); p != nil {
			last = p
		}
	}
	if len(last.GetTools()) != 0 {
		t.Errorf("the last request offers %v", last.GetTools())
	}
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
}

func testRepetition(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("stubborn")))
	wantState(t, r.terminal.GetRun(), failed, "repeated_failure")
	if len(r.results()) != 3 || !contains(r.terminal.GetRun().GetMessage(), "read_file") {
		t.Errorf("%d results, message %q", len(r.results()), r.terminal.GetRun().GetMessage())
	}
}

func testReminder(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("mute"))
	wantState(t, r, completed, "done")
	if r.GetText() != "Sorry." || r.GetSteps() != 2 {
		t.Errorf("%d steps, text %q", r.GetSteps(), r.GetText())
	}
}

func testBlankAtLimit(t testkit.T, k *kit) {
	r := k.call(t, k.ctx(t), limited("mute", &orchestratorv1.AgentSpec{MaxSteps: 1}))
	if r.GetUsage().GetRequests() != 2 {
		t.Errorf("%d requests", r.GetUsage().GetRequests())
	}
	wantState(t, r, completed, "max_steps")
}

func testTokenBudget(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), limited("dear", &orchestratorv1.AgentSpec{Budget: &orchestratorv1.Budget{Tokens: 900}})))
	wantState(t, r.terminal.GetRun(), failed, "budget_tokens")
	if res := r.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED {
		t.Errorf("results: %v", res)
	}
}

func testWallTime(t testkit.T, k *kit) {
	r := k.call(t, k.ctx(t), limited("stuck", &orchestratorv1.AgentSpec{Budget: &orchestratorv1.Budget{WallTime: durationpb.New(300e6)}}))
	wantState(t, r, failed, "budget_wall_time")
}

func testStructured(t testkit.T, k *kit) {
	schema, _ := structpb.NewStruct(map[string]any{"type": "object", "required": []any{"colour"}})
	r := k.call(t, k.ctx(t), &orchestratorv1.RunInput{Text: "object", OutputSchema: schema})
	wantState(t, r, completed, "done")
	if r.GetOutput().GetFields()["colour"].GetStringValue() != "blue" {
		t.Errorf("the output is %v", r.GetOutput())
	}
}

func testStructuredWrong(t testkit.T, k *kit) {
	for _, c := range []struct{ text, field string }{{"hello", "colour"}, {"object", "shape"}} {
		schema, _ := structpb.NewStruct(map[string]any{"type": "object", "required": []any{c.field}})
		r := k.call(t, k.ctx(t), &orchestratorv1.RunInput{Text: c.text, OutputSchema: schema})
		wantState(t, r, failed, "output_invalid")
	}
}

var modelCases = map[string]func(testkit.T, *kit){
	"an error ends the run with its reason": testModelError,
	"an answer that breaks off":             testMidStream,
	"a fallback":                            testFallback,
	"a conversation that grows too long":    testCompaction,
}

func testModelError(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, text("broken")))
	wantState(t, r.terminal.GetRun(), failed, "model_auth")
	if r.terminal.GetOutcome() != "failed" || r.terminal.GetRun().GetMessage() == "" {
		t.Errorf("the end is %v", r.terminal)
	}
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
}

func testMidStream(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("shaky")))
	wantState(t, r.terminal.GetRun(), completed, "done")
	if r.terminal.GetRun().GetText() != "A whole answer." {
		t.Errorf("the text is %q", r.terminal.GetRun().GetText())
	}
}

func testFallback(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), limited("broken", &orchestratorv1.AgentSpec{FallbackModel: "offline"})))
	wantState(t, r.terminal.GetRun(), completed, "done")
	retried := false
	for _, ev := range r.events {
		retried = retried || ev.GetPayload().GetModelRetried().GetNextModel() == "offline"
	}
	if !retried {
		t.Errorf("the change of models is not told: %v", r.types())
	}
}

func testCompaction(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	for range 26 {
		k.call(t, ctx, text("hello"))
	}
	all, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{PageSize: 500})
	if err != nil || len(all.GetMessages()) != 52 {
		t.Fatalf("the transcript has %d messages, %v", len(all.GetMessages()), err)
	}
	now, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{PageSize: 500, VisibleOnly: true})
	if err != nil || len(now.GetMessages()) > 30 || now.GetMessages()[0].GetMessage().GetOrigin() != "summary" {
		t.Errorf("the model sees %d messages, %v", len(now.GetMessages()), err)
	}
	if !all.GetMessages()[0].GetCompacted() || all.GetMessages()[51].GetCompacted() {
		t.Errorf("the wrong messages are marked")
	}
}
