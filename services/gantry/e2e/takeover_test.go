package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// TestTakeOver kills the orchestrator with SIGKILL while a command of its run is at work. A second replica takes the run over:
// the command, which the sandbox has gone on with, ran once, and what follows it is done.
func TestTakeOver(t *testing.T) {
	c := processes(t)
	const replica = "orchestrator-2"
	if err := c.LaunchReplica(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx = access.NewTokenContext(ctx, token(t, identity.DefaultTenant, "ana"))
	ctx = identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: "helper", User: "ana", Session: "s1", ScopeUnset: true})
	first := orchestratorv1.NewRunServiceClient(c.Conn(procs.Orchestrator))
	stream, err := first.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{
		Text: "Run `echo begun >> log.txt; sleep 5; echo ended >> log.txt`. Write \"done\" to after.txt.",
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for id == "" {
		msg, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if msg.GetEvent().GetEvent().GetPayload().GetToolDispatched().GetName() == "execute" {
			id = msg.GetEvent().GetRunId()
		}
	}
	second := orchestratorv1.NewRunServiceClient(c.Conn(replica))
	files := fsv1.NewFilesystemServiceClient(c.Conn(replica))
	testkit.Eventually(t, 20*time.Second, func() error {
		got, err := files.Read(ctx, &fsv1.ReadRequest{Path: "log.txt"})
		if err == nil && !strings.Contains(got.GetText(), "begun") {
			err = fmt.Errorf("the file holds %q", got.GetText())
		}
		return err
	})
	if err := c.Kill(procs.Orchestrator); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Log("the stream of the killed process still gave a message that was under way")
	}
	watch, err := second.AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: id})
	if err != nil {
		t.Fatal(err)
	}
	var taken bool
	for {
		msg, err := watch.Recv()
		if err != nil {
			t.Fatalf("the second replica's stream: %v", err)
		}
		taken = taken || msg.GetEvent().GetEvent().GetPayload().GetRecoveryTakenOver() != nil
		terminal := msg.GetEvent().GetTerminal()
		if terminal == nil {
			continue
		}
		if terminal.GetOutcome() != "completed" || terminal.GetRun().GetState() != threadv1.RunState_RUN_STATE_COMPLETED {
			t.Errorf("the run is %s: %s", terminal.GetOutcome(), terminal.GetRun().GetMessage())
		}
		break
	}
	if !taken {
		t.Error("the journal does not say that the run was taken over")
	}
	for path, want := range map[string]string{"log.txt": "begun\nended", "after.txt": "done"} {
		if got, err := files.Read(ctx, &fsv1.ReadRequest{Path: path}); err != nil || strings.TrimSpace(got.GetText()) != want {
			t.Errorf("%s holds %q, %v; want %q", path, got.GetText(), err, want)
		}
	}
}
