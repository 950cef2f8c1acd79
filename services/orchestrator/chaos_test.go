package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

// TestKilledAtEveryCommit kills the replica at each commit of a run, once before the store has it and once after: the other replica always ends the run, each file
// was written once, no call has two results, and the conversation is whole. So it is when a checkpoint is written wherever one may be.
func TestKilledAtEveryCommit(t *testing.T) {
	for _, every := range []int{0, 1} {
		killedAtEvery(t, every)
	}
}

func killedAtEvery(t *testing.T, checkpoints int) {
	const most = 12
	for n := 1; n <= most; n++ {
		done := false
		for _, before := range []bool{true, false} {
			name := fmt.Sprintf("commit %d, before=%v, checkpoints=%d", n, before, checkpoints)
			t.Run(name, func(t *testing.T) { done = killedAt(t, n, before, checkpoints) })
		}
		if done {
			return
		}
	}
	t.Errorf("the run has more than %d commits", most)
}

// killedAt says whether the run ended before the kill.
func killedAt(t *testing.T, n int, before bool, checkpoints int) (untouched bool) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	often := func(cfg *orchestrator.Config) { cfg.CheckpointEvery = checkpoints }
	victim := c.Start(often)
	victim.KillAt(n, before)
	begin := func(r *orchestratortest.Replica) (*orchestratorv1.Run, error) { // under one request id, so that it can be said again
		got, err := orchestratorv1.NewRunServiceClient(r.Conn).StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{Text: "both please", RequestId: "once"}})
		return got.GetRun(), err
	}
	run, unanswered := begin(victim)                     // its answer may die with the victim
	testkit.Eventually(t, 10*time.Second, func() error { // the victim dies, or the run ends
		if journal := c.Threads.Journal(key); count(journal, "run/ended") > 0 || victim.Dead() {
			return nil
		}
		return fmt.Errorf("neither dead nor done")
	})
	untouched = !victim.Dead()
	survivor := c.Start(often)
	if unanswered != nil {
		var err error
		if run, err = begin(survivor); err != nil {
			t.Fatal(err)
		}
	}
	events, end := watch(t, ctx, survivor, run.GetId())
	if written := count(c.Threads.Journal(key), "checkpoint/written"); (written > 0) != (checkpoints > 0) {
		t.Errorf("%d checkpoints were written", written)
	}
	if end.GetOutcome() != "completed" || end.GetRun().GetText() != "Both are there." {
		t.Errorf("the end is %v", end)
	}
	if count(events, "run/ended") != 1 || count(events, "tool/ended") != 2 || count(events, "run/started") != 1 {
		t.Errorf("%d starts, %d results, %d ends", count(events, "run/started"), count(events, "tool/ended"), count(events, "run/ended"))
	}
	b, err := identity.Identity{Tenant: identity.DefaultTenant, User: "ana", Session: "s"}.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a.txt", "b.txt"} {
		if n := c.Workspace.WritesIn(b, path); n != 1 {
			t.Errorf("%s was written %d times", path, n)
		}
	}
	return untouched
}

// TestOutsideCallsAreNotRepeated kills the replica right after the dispatch of a client's tool was committed: whether the client was asked is not known, so a person decides.
func TestOutsideCallsAreNotRepeated(t *testing.T) {
	for decision, outcome := range map[string]string{"skip": "completed", "fail": "failed", "retry": "suspended"} {
		t.Run(decision, func(t *testing.T) {
			c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
			victim := c.Start(nil)
			ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
			victim.KillAt(4, true) // start, request, answer and dispatch; then the question
			if _, err := orchestratorv1.NewRunServiceClient(victim.Conn).StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{
				Text: "beep", ClientTools: []*orchestratorv1.ClientTool{{Name: "beep"}},
			}}); err != nil {
				t.Fatal(err)
			}
			survivor := c.Start(nil)
			asked := hasEvent(t, c, key, "interaction/requested").GetPayload().GetInteractionRequested().GetInteraction()
			if asked.GetKind() != "outcome_unknown" {
				t.Fatalf("asked is %v", asked)
			}
			runs := orchestratorv1.NewRunServiceClient(survivor.Conn)
			resp, err := runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: asked.GetId(), Decision: decision}}})
			if err != nil {
				t.Fatal(err)
			}
			_, end := watch(t, ctx, survivor, resp.GetRun().GetId())
			if end.GetOutcome() != outcome {
				t.Errorf("the outcome is %v", end)
			}
			if open := end.GetRun().GetInteractions(); decision == "retry" && (len(open) != 1 || open[0].GetKind() != "client_tool") {
				t.Errorf("after a retry the client is asked %v", open)
				for _, ev := range c.Threads.Journal(key) {
					t.Log(ev.GetSeq(), ev.GetType(), ev.GetPayload())
				}
				t.Log(end)
			}
		})
	}
}
