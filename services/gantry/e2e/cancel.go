package e2e

import (
	"fmt"
	"testing"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// testCancel cancels a run whose command would take an hour: the stream says so soon, and the command is gone.
func testCancel(t *testing.T, g Target) {
	c := g.clients()
	ctx := g.as(t, acme, "helper", unique("ana"), unique("s"))
	stream, err := c.runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{Text: "Run `sleep 3600`."}})
	if err != nil {
		t.Fatal(err)
	}
	run := untilDispatched(t, stream, "execute")
	started := time.Now()
	if _, err := c.runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: run, Reason: "it takes too long"}); err != nil {
		t.Fatal(err)
	}
	terminal, events, err := drain(stream)
	if err != nil || terminal.GetOutcome() != "cancelled" {
		t.Fatalf("the run is %s, %v\n%s", terminal.GetOutcome(), err, story(events))
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("the cancel took %s", took)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		boxes, err := c.sandbox.List(ctx, &sandboxv1.ListRequest{})
		if err != nil {
			return err
		}
		for _, box := range boxes.GetSandboxes() {
			if n := box.GetRunningExecs(); n != 0 {
				return fmt.Errorf("%d commands still run in %s", n, box.GetSandboxId())
			}
		}
		return nil
	})
	// The thread is free for the next call.
	mustCall(t, ctx, c, `Write "later" to later.txt.`)
}

// untilDispatched reads a stream until a tool was called, and returns the run.
func untilDispatched(t *testing.T, stream interface {
	Recv() (*orchestratorv1.StreamAgentResponse, error)
}, tool string) string {
	t.Helper()
	var events []*threadv1.Event
	for {
		msg, err := stream.Recv()
		if err != nil {
			t.Fatalf("before %s was called: %v\n%s", tool, err, story(events))
		}
		if msg.GetEvent().GetTerminal() != nil {
			t.Fatalf("the run ended before %s was called: %v\n%s", tool, msg.GetEvent().GetTerminal(), story(events))
		}
		e := msg.GetEvent().GetEvent()
		events = append(events, e)
		if e.GetPayload().GetToolDispatched().GetName() == tool {
			return msg.GetEvent().GetRunId()
		}
	}
}
