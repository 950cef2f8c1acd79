package e2e

import (
	"context"
	"strings"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// testAttach follows a run by several watchers: one from its beginning while it works, later ones from the middle.
func testAttach(t *testing.T, g Target) {
	c := g.clients()
	user := unique("ana")
	ctx := g.as(t, acme, "helper", user, unique("s"))
	started, err := c.runs.StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{
		Text: `Run ` + "`sleep 1`" + `. Write "one" to a.txt. Write "two" to b.txt.`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := started.GetRun().GetId()
	all := attach(t, ctx, c, id, 0)
	if len(all) < 8 {
		t.Fatalf("the run has only %d events: %s", len(all), story(all))
	}
	for i, e := range all[1:] {
		if e.GetSeq() <= all[i].GetSeq() {
			t.Errorf("event %d follows %d", e.GetSeq(), all[i].GetSeq())
		}
	}
	middle := len(all) / 2
	rest := attach(t, ctx, c, id, all[middle].GetSeq())
	if len(rest) != len(all)-middle-1 || rest[0].GetSeq() != all[middle+1].GetSeq() {
		t.Errorf("after event %d come %d events, want %d", all[middle].GetSeq(), len(rest), len(all)-middle-1)
	}
	if last := attach(t, ctx, c, id, all[len(all)-1].GetSeq()); len(last) != 0 {
		t.Errorf("after the last event come %d", len(last))
	}
	stream, err := c.runs.AttachRun(g.as(t, globex, "helper", user, ""), &orchestratorv1.AttachRunRequest{RunId: id})
	if err == nil {
		_, err = stream.Recv()
	}
	if errdefs.ReasonOf(err) != "RUN_NOT_FOUND" && errdefs.ReasonOf(err) != "THREAD_NOT_FOUND" && errdefs.ReasonOf(err) != "IDENTITY_REQUIRED" {
		t.Errorf("the user of that name in another tenant gets %v", err)
	}
}

// attach follows a run to its end and returns the events after a sequence.
func attach(t *testing.T, ctx context.Context, c clients, id string, after int64) []*threadv1.Event {
	t.Helper()
	stream, err := c.runs.AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: id, AfterSeq: after})
	if err != nil {
		t.Fatal(err)
	}
	terminal, events, err := drain(stream)
	if err != nil || terminal.GetOutcome() != "completed" || terminal.GetRun().GetId() != id {
		t.Fatalf("after %d: run %s is %s, %v\n%s", after, terminal.GetRun().GetId(), terminal.GetOutcome(), err, story(events))
	}
	return events
}

// testRepeat sends one request twice at once, as a client does that did not see the answer: there is one run, with one effect.
func testRepeat(t *testing.T, g Target) {
	c := g.clients()
	ctx := g.as(t, acme, "helper", unique("ana"), unique("s"))
	request := &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{RequestId: unique("request"), Text: "Run `echo once >> log.txt`."}}
	runs := make(chan *orchestratorv1.Run, 2)
	for range cap(runs) {
		go func() {
			got, err := c.runs.CallAgent(ctx, request)
			if err != nil {
				t.Error(err)
			}
			runs <- got.GetRun()
		}()
	}
	first, second := <-runs, <-runs
	if first.GetId() == "" || first.GetId() != second.GetId() {
		t.Errorf("the request made the runs %q and %q", first.GetId(), second.GetId())
	}
	if text, err := read(ctx, c, "log.txt"); err != nil || strings.Count(text, "once") != 1 {
		t.Errorf("the file holds %q, %v", text, err)
	}
}
