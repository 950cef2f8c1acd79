package orchestratortest

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func testkitEventually(t testkit.T, check func() bool) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		if check() {
			return nil
		}
		return errors.New("not yet")
	})
}

var askCases = map[string]func(testkit.T, *kit){
	"approval: the three views agree":     testApprovalViews,
	"approval: approve":                   testApprove,
	"approval: refuse with a reason":      testRefuseCall,
	"approval: edited arguments":          testEdited,
	"approval: edited beyond the rules":   testEditedDenied,
	"approval: remembered":                testRemembered,
	"approval: in part":                   testInPart,
	"a question with choices":             testQuestion,
	"a tool of the client":                testClientTool,
	"answers that do not fit":             testBadAnswers,
	"an answer to what is not there":      testAnswerNothing,
	"attach after an answer sees the end": testAttachAfterAnswer,
}

// guarded asks before every write.
func guarded(s string) *orchestratorv1.RunInput {
	return &orchestratorv1.RunInput{Text: s, Spec: &orchestratorv1.AgentSpec{PolicyRules: []string{"ask write_file"}}}
}

func (k *kit) resolve(t testkit.T, ctx context.Context, answers ...*orchestratorv1.InteractionAnswer) *orchestratorv1.Run {
	t.Helper()
	resp, err := k.runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: answers})
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return resp.GetRun()
}

// wait waits for the end of a run.
func (k *kit) wait(t testkit.T, ctx context.Context, run string, after int64) record {
	t.Helper()
	return read(t, k.attach(t, ctx, run, after))
}

func testApprovalViews(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	streamed := read(t, k.stream(t, ctx, guarded("keep it")))
	run := streamed.terminal.GetRun()
	wantState(t, run, suspended, "interaction")
	if streamed.terminal.GetOutcome() != "suspended" || len(run.GetInteractions()) != 1 {
		t.Fatalf("the terminal message is %v", streamed.terminal)
	}
	i := run.GetInteractions()[0]
	if i.GetKind() != "approval" || i.GetCall().GetName() != "write_file" || i.GetCall().GetArgumentsJson() == "" || i.GetExpireTime() == nil {
		t.Errorf("the interaction is %v", i)
	}
	list, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
	if err != nil || len(list.GetInteractions()) != 1 {
		t.Fatalf("list: %v, %v", list, err)
	}
	same(t, "listed", i, list.GetInteractions()[0].GetInteraction())
	all, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{AllThreads: true})
	if err != nil || len(all.GetInteractions()) != 1 || all.GetInteractions()[0].GetRunId() != run.GetId() {
		t.Errorf("of all threads: %v, %v", all, err)
	}
	got, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: run.GetId()})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	same(t, "unary", run.GetInteractions(), got.GetRun().GetInteractions())
	if len(streamed.results()) != 0 {
		t.Errorf("something was done: %v", streamed.results())
	}
}

func testApprove(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("keep it"))
	yes := &orchestratorv1.InteractionAnswer{InteractionId: r.GetInteractions()[0].GetId(), Decision: "approve"}
	k.resolve(t, ctx, yes)
	end := k.wait(t, ctx, r.GetId(), 0)
	wantState(t, end.terminal.GetRun(), completed, "done")
	if res := end.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_OK {
		t.Errorf("results: %v", res)
	}
	k.resolve(t, ctx, yes) // twice without harm
	_, err := k.runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{
		{InteractionId: yes.GetInteractionId(), Decision: "deny"},
	}})
	wantError(t, err, errdefs.ErrFailedPrecondition, "INTERACTION_CLOSED")
}

func testRefuseCall(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("keep it"))
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: r.GetInteractions()[0].GetId(), Decision: "deny", Reason: "not here"})
	end := k.wait(t, ctx, r.GetId(), 0)
	wantState(t, end.terminal.GetRun(), completed, "done")
	if res := end.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_DENIED || !contains(res[0].GetText(), "not here") {
		t.Errorf("results: %v", res)
	}
}

func testEdited(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("keep it"))
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{
		InteractionId: r.GetInteractions()[0].GetId(), Decision: "approve", EditedArgumentsJson: `{"path":"elsewhere.txt","content":"ink"}`,
	})
	end := k.wait(t, ctx, r.GetId(), 0)
	if res := end.results(); len(res) != 1 || !contains(res[0].GetText(), "elsewhere.txt") {
		t.Errorf("results: %v", res)
	}
}

func testEditedDenied(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	in := guarded("keep it")
	in.Spec.PolicyRules = append(in.Spec.PolicyRules, "deny write_file(secret/**)")
	r := k.call(t, ctx, in)
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{
		InteractionId: r.GetInteractions()[0].GetId(), Decision: "approve", EditedArgumentsJson: `{"path":"secret/x.txt","content":"ink"}`,
	})
	end := k.wait(t, ctx, r.GetId(), 0)
	if res := end.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_DENIED {
		t.Errorf("results: %v", res)
	}
}

func testRemembered(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("keep it"))
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: r.GetInteractions()[0].GetId(), Decision: "deny", RememberRule: "deny write_file"})
	k.wait(t, ctx, r.GetId(), 0)
	again := read(t, k.stream(t, ctx, text("keep it")))
	if res := again.results(); len(res) != 1 || res[0].GetStatus() != threadv1.ToolStatus_TOOL_STATUS_DENIED {
		t.Errorf("results: %v", res)
	}
}

func testInPart(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("both"))
	if len(r.GetInteractions()) != 2 {
		t.Fatalf("interactions: %v", r.GetInteractions())
	}
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: r.GetInteractions()[1].GetId(), Decision: "approve"})
	testkitEventually(t, func() bool {
		got, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: r.GetId()})
		return err == nil && got.GetRun().GetState() == suspended && len(got.GetRun().GetInteractions()) == 1
	})
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: r.GetInteractions()[0].GetId(), Decision: "deny"})
	end := k.wait(t, ctx, r.GetId(), r.GetLastSeq())
	wantState(t, end.terminal.GetRun(), completed, "done")
}

func testQuestion(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("ask me"))
	i := r.GetInteractions()[0]
	if i.GetKind() != "question" || len(i.GetChoices()) != 2 || i.GetPrompt() == "" {
		t.Errorf("the question is %v", i)
	}
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: i.GetId(), Decision: "answer", Answers: []string{"tea"}})
	end := k.wait(t, ctx, r.GetId(), 0)
	if end.terminal.GetRun().GetText() != "Good choice." || end.results()[0].GetText() != "tea" {
		t.Errorf("the end is %v", end.terminal)
	}
}

func testClientTool(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	schema, _ := structpb.NewStruct(map[string]any{"type": "object", "properties": map[string]any{"times": map[string]any{"type": "integer"}}})
	r := k.call(t, ctx, &orchestratorv1.RunInput{Text: "beep", ClientTools: []*orchestratorv1.ClientTool{{Name: "beep", Description: "beeps", Schema: schema}}})
	wantState(t, r, suspended, "interaction")
	i := r.GetInteractions()[0]
	if i.GetKind() != "client_tool" || i.GetCall().GetName() != "client__beep" {
		t.Fatalf("the interaction is %v", i)
	}
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: i.GetId(), Decision: "result", Result: &threadv1.ToolResult{Status: threadv1.ToolStatus_TOOL_STATUS_OK, Text: "beep beep"}})
	end := k.wait(t, ctx, r.GetId(), 0)
	wantState(t, end.terminal.GetRun(), completed, "done")
	if end.results()[0].GetText() != "beep beep" {
		t.Errorf("results: %v", end.results())
	}
}

func testBadAnswers(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("ask me"))
	id := r.GetInteractions()[0].GetId()
	for _, a := range []*orchestratorv1.InteractionAnswer{
		{InteractionId: id, Decision: "approve"}, {InteractionId: id, Decision: "answer"}, {InteractionId: id, Decision: "answer", Answers: []string{"water"}},
		{InteractionId: id, Decision: "answer", Answers: []string{"tea", "coffee"}},
	} {
		_, err := k.runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{a}})
		wantError(t, err, errdefs.ErrInvalidArgument, "SPEC_INVALID")
	}
}

func testAnswerNothing(t testkit.T, k *kit) {
	_, err := k.runs.ResolveInteractions(k.ctx(t), &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: "i-nothing", Decision: "deny"}}})
	wantError(t, err, errdefs.ErrNotFound, "INTERACTION_NOT_FOUND")
}

func testAttachAfterAnswer(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	first := read(t, k.stream(t, ctx, text("ask me")))
	run := first.terminal.GetRun()
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: run.GetInteractions()[0].GetId(), Decision: "answer", Answers: []string{"coffee"}})
	rest := k.wait(t, ctx, run.GetId(), run.GetLastSeq())
	wantState(t, rest.terminal.GetRun(), completed, "done")
	if rest.events[0].GetType() != "interaction/resolved" {
		t.Errorf("the rest is %v", rest.types())
	}
}
