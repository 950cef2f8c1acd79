package orchestratortest

import (
	"context"
	"fmt"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var childCases = map[string]func(testkit.T, *kit){
	"a child that is waited for":         testChild,
	"its events are in the stream":       testChildEvents,
	"a child in the background":          testBackground,
	"a child has its parent's ceilings":  testCeiling,
	"a child asks, the top answers":      testChildAsks,
	"cancelling the parent ends a child": testCancelChild,
}

// childCtx is a call on the thread of the first child of a record.
func childCtx(t testkit.T, k *kit, ctx context.Context, r record) context.Context {
	t.Helper()
	for _, ev := range r.events {
		if s := ev.GetPayload().GetTaskStarted(); s != nil {
			id, _ := identity.FromContext(ctx)
			id.Session = s.GetChildThread().GetSession()
			return k.as(t, id)
		}
	}
	t.Fatalf("no task was started: %v", r.types())
	return nil
}

func testChild(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, text("delegate")))
	wantState(t, r.terminal.GetRun(), completed, "done")
	if res := r.results(); len(res) != 1 || !contains(res[0].GetText(), "The note is kept.") {
		t.Errorf("results: %v", res)
	}
	child, err := k.runs.GetRun(childCtx(t, k, ctx, r), &orchestratorv1.GetRunRequest{RunId: "latest"})
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	wantState(t, child.GetRun(), completed, "done")
	if child.GetRun().GetTaskId() == "" {
		t.Errorf("the child's run is of no task: %v", child.GetRun())
	}
	messages, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(messages.GetMessages()) != 4 {
		t.Errorf("the result came twice, or not at all: %v, %v", messages.GetMessages(), err)
	}
}

func testChildEvents(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("delegate")))
	seen := map[string]bool{}
	for _, ev := range r.events {
		if s := ev.GetPayload().GetSubagentEvent(); s != nil {
			seen[s.GetEvent().GetType()] = true
			if s.GetSource() != "helper" || s.GetTaskId() == "" {
				t.Errorf("an event has source %q and task %q", s.GetSource(), s.GetTaskId())
			}
		}
	}
	for _, want := range []string{"run/started", "tool/ended"} {
		if !seen[want] {
			t.Errorf("the child's %s is missing: %v", want, seen)
		}
	}
}

func testBackground(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	first := read(t, k.stream(t, ctx, text("background")))
	wantState(t, first.terminal.GetRun(), completed, "done")
	var last *orchestratorv1.Run
	defer func() {
		if t.Failed() {
			messages, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
			t.Logf("the last run is %v, the messages are %v (%v)", last, messages.GetMessages(), err)
		}
	}()
	testkitEventually(t, func() bool { // the result wakes the idle thread, or joins the run when that has not answered yet
		list, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{})
		if err != nil || len(list.GetRuns()) == 0 {
			return false
		}
		last = list.GetRuns()[0]
		return last.GetState() == completed && last.GetText() == "The result has come."
	})
	read(t, k.attach(t, ctx, "latest", 0))
}

func testCeiling(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, &orchestratorv1.RunInput{Text: "delegate", Spec: &orchestratorv1.AgentSpec{PolicyRules: []string{"deny write_file"}}}))
	messages, err := k.threads.ListMessages(childCtx(t, k, ctx, r), &orchestratorv1.ListMessagesRequest{})
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	denied := false
	for _, m := range messages.GetMessages() {
		for _, b := range m.GetMessage().GetBlocks() {
			denied = denied || b.GetToolResult().GetStatus() == threadv1.ToolStatus_TOOL_STATUS_DENIED
		}
	}
	if !denied {
		t.Errorf("the child was not held to its parent's rule: %v", messages.GetMessages())
	}
}

func testChildAsks(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s := k.stream(t, ctx, guarded("delegate"))
	until(t, s, "tool/dispatched")
	var open []*orchestratorv1.PendingInteraction
	r := read(t, s) // the spawn does not wait for a person: the parent goes on
	testkitEventually(t, func() bool {
		list, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
		open = list.GetInteractions()
		return err == nil && len(open) == 1
	})
	if id, _ := identity.FromContext(ctx); open[0].GetSession() == id.Session || open[0].GetInteraction().GetCall().GetName() != "write_file" {
		t.Errorf("the child's question is %v", open[0])
	}
	k.resolve(t, ctx, &orchestratorv1.InteractionAnswer{InteractionId: open[0].GetInteraction().GetId(), Decision: "approve"})
	child := childCtx(t, k, ctx, r)
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := k.runs.GetRun(child, &orchestratorv1.GetRunRequest{RunId: "latest"})
		if err == nil && got.GetRun().GetState() != completed {
			err = fmt.Errorf("the child is %v", got.GetRun())
		}
		return err
	})
}

func testCancelChild(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, guarded("delegate"))
	_ = r
	open := 0
	testkitEventually(t, func() bool {
		list, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
		open = len(list.GetInteractions())
		return err == nil && open == 1
	})
	list, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	id, _ := identity.FromContext(ctx)
	id.Session = list.GetInteractions()[0].GetSession()
	child := k.as(t, id)
	k.cancel(t, child, list.GetInteractions()[0].GetRunId())
	testkitEventually(t, func() bool {
		got, err := k.runs.GetRun(child, &orchestratorv1.GetRunRequest{RunId: "latest"})
		return err == nil && got.GetRun().GetState() == cancelled
	})
}
