package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// testApproval has a command wait for its user, who allows or denies it. Until then, and after a denial, it did not run.
func testApproval(t *testing.T, g Target) {
	for decision, gone := range map[string]bool{"approve": true, "deny": false} {
		t.Run(decision, func(t *testing.T) {
			c := g.clients()
			user, session := unique("ana"), unique("s")
			ctx := g.as(t, acme, "helper", user, session)
			mustCall(t, ctx, c, `Write "keep me" to old.txt.`)
			terminal, events, err := call(ctx, c, "Run `rm old.txt`.")
			if err != nil || terminal.GetOutcome() != "suspended" {
				t.Fatalf("the run is %s, %v; it should wait\n%s", terminal.GetOutcome(), err, story(events))
			}
			if text, err := read(ctx, c, "old.txt"); err != nil || !strings.Contains(text, "keep me") {
				t.Fatalf("before the answer the file holds %q, %v", text, err)
			}
			if got, err := c.runs.ListInteractions(g.as(t, acme, "helper", unique("ben"), ""), &orchestratorv1.ListInteractionsRequest{AllThreads: true}); err != nil || len(got.GetInteractions()) != 0 {
				t.Errorf("another user sees %v, %v", got, err)
			}
			waiting, err := c.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{AllThreads: true})
			if err != nil || len(waiting.GetInteractions()) != 1 {
				t.Fatalf("what waits: %v, %v; want one", waiting, err)
			}
			_, err = c.runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{
				{InteractionId: waiting.GetInteractions()[0].GetInteraction().GetId(), Decision: decision},
			}})
			if err != nil {
				t.Fatal(err)
			}
			run := await(t, ctx, c, terminal.GetRun().GetId())
			if run.GetState() != threadv1.RunState_RUN_STATE_COMPLETED {
				t.Errorf("after the answer the run is %v: %s", run.GetState(), run.GetMessage())
			}
			if _, err := read(ctx, c, "old.txt"); (err != nil) != gone {
				t.Errorf("after %s, reading the file gives %v", decision, err)
			}
		})
	}
}

// await follows a run to its end.
func await(t *testing.T, ctx context.Context, c clients, id string) *orchestratorv1.Run {
	t.Helper()
	var run *orchestratorv1.Run
	testkit.Eventually(t, testTimeout/2, func() error {
		got, err := c.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: id})
		if err != nil {
			return err
		}
		switch run = got.GetRun(); run.GetState() {
		case threadv1.RunState_RUN_STATE_COMPLETED, threadv1.RunState_RUN_STATE_FAILED, threadv1.RunState_RUN_STATE_CANCELLED:
			return nil
		}
		return fmt.Errorf("the run is %v", run.GetState())
	})
	return run
}
