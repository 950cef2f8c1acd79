package e2e

import (
	"strings"
	"testing"

	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// testRestart ends everything and starts it again: files, facts, tasks, conversation and an open question are as they were,
// and the thread goes on.
func testRestart(t *testing.T, g Target) {
	if g.Restart == nil {
		t.Skip("the target can't be restarted")
	}
	c := g.clients()
	user, session, code := unique("ana"), unique("s"), unique("code")
	ctx := g.as(t, acme, "helper", user, session)
	mustCall(t, ctx, c, `Write "before" to kept.txt. Run `+"`cp kept.txt copy.txt`"+`. Remember that my locker code is `+code+`. Ask the clerk subagent to list the files in knowledge.`)
	terminal, _, err := call(ctx, c, "Run `rm kept.txt`.")
	if err != nil || terminal.GetOutcome() != "suspended" {
		t.Fatalf("the run is %s, %v; it should wait", terminal.GetOutcome(), err)
	}
	before, err := c.threads.Head(ctx, &threadv1.HeadRequest{})
	if err != nil {
		t.Fatal(err)
	}

	g.Restart(t)
	c = g.clients()

	after, err := c.threads.Head(ctx, &threadv1.HeadRequest{})
	if err != nil || after.GetHead().GetSeq() != before.GetHead().GetSeq() {
		t.Errorf("the journal is at %d, %v; it was at %d", after.GetHead().GetSeq(), err, before.GetHead().GetSeq())
	}
	for _, path := range []string{"kept.txt", "copy.txt"} {
		if text, err := read(ctx, c, path); err != nil || strings.TrimSpace(text) != "before" {
			t.Errorf("%s holds %q, %v", path, text, err)
		}
	}
	tasks, err := c.tasks.ListTasks(ctx, &taskv1.ListTasksRequest{})
	if err != nil || len(tasks.GetTasks()) != 1 || tasks.GetTasks()[0].GetState() != taskv1.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("tasks: %v, %v", tasks, err)
	}
	if answer := mustCall(t, g.as(t, acme, "helper", user, unique("s")), c, "What is my locker code?"); !strings.Contains(answer, code) {
		t.Errorf("the fact is forgotten: %q", answer)
	}
	// The question that was open is answered now, by the user, to another process.
	waiting, err := c.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
	if err != nil || len(waiting.GetInteractions()) != 1 {
		t.Fatalf("what waits: %v, %v; want one", waiting, err)
	}
	_, err = c.runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{
		{InteractionId: waiting.GetInteractions()[0].GetInteraction().GetId(), Decision: "approve"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if run := await(t, ctx, c, terminal.GetRun().GetId()); run.GetState() != threadv1.RunState_RUN_STATE_COMPLETED {
		t.Errorf("the run is %v: %s", run.GetState(), run.GetMessage())
	}
	if text, err := read(ctx, c, "kept.txt"); err == nil {
		t.Errorf("the file is still there: %q", text)
	}
	if boxes, err := c.sandbox.List(ctx, &sandboxv1.ListRequest{}); err != nil || len(boxes.GetSandboxes()) != 1 {
		t.Errorf("sandboxes: %v, %v; want the one that was there", boxes, err)
	}
	mustCall(t, ctx, c, `Write "after" to more.txt.`)
}
