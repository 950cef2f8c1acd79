package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// Target is a running suite.
type Target struct {
	// Conn connects to a service by its name in package suite. After Restart, connections are asked for anew.
	Conn func(service string) grpc.ClientConnInterface
	// Restart ends the whole suite and starts it again on what it has stored.
	Restart func(t *testing.T)
	// Token is a credential for one user of a tenant, "*" for any.
	Token func(t *testing.T, tenant, user string) string
}

// clients are the clients of one moment.
type clients struct {
	files   fsv1.FilesystemServiceClient
	memory  memoryv1.MemoryServiceClient
	threads threadv1.ThreadServiceClient
	tasks   taskv1.TaskServiceClient
	sandbox sandboxv1.SandboxServiceClient
	runs    orchestratorv1.RunServiceClient
	admin   orchestratorv1.ThreadAdminServiceClient
	agents  orchestratorv1.AgentServiceClient
}

func (g Target) clients() clients {
	return clients{
		files: fsv1.NewFilesystemServiceClient(g.Conn(suite.Orchestrator)), memory: memoryv1.NewMemoryServiceClient(g.Conn(suite.Memory)),
		threads: threadv1.NewThreadServiceClient(g.Conn(suite.Workspace)), tasks: taskv1.NewTaskServiceClient(g.Conn(suite.Task)),
		sandbox: sandboxv1.NewSandboxServiceClient(g.Conn(suite.Sandbox)), runs: orchestratorv1.NewRunServiceClient(g.Conn(suite.Orchestrator)),
		admin: orchestratorv1.NewThreadAdminServiceClient(g.Conn(suite.Orchestrator)), agents: orchestratorv1.NewAgentServiceClient(g.Conn(suite.Orchestrator)),
	}
}

// testTimeout bounds one test; a run that hangs must not hang all.
const testTimeout = 2 * time.Minute

// as is the context of a user of a tenant.
func (g Target) as(t *testing.T, tenant, agent, user, session string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	ctx = access.NewTokenContext(ctx, g.Token(t, tenant, cmp.Or(user, "*")))
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: agent, User: user, Session: session, ScopeUnset: true})
}

// call runs to the end of the stream and returns the terminal message and the events before it.
func call(ctx context.Context, c clients, text string) (*orchestratorv1.RunTerminal, []*threadv1.Event, error) {
	stream, err := c.runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{Text: text}})
	if err != nil {
		return nil, nil, err
	}
	return drain(stream)
}

// drain reads a stream of a run to its end. One that ends without a terminal message is an error.
func drain[M interface {
	GetEvent() *orchestratorv1.RunEvent
}](stream interface{ Recv() (M, error) }) (*orchestratorv1.RunTerminal, []*threadv1.Event, error) {
	var events []*threadv1.Event
	var terminal *orchestratorv1.RunTerminal
	for {
		msg, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && terminal != nil:
			return terminal, events, nil
		case errors.Is(err, io.EOF):
			return nil, events, errors.New("the stream ended without a terminal message")
		case err != nil:
			return nil, events, err
		case terminal != nil:
			return nil, events, fmt.Errorf("a message follows the terminal one: %v", msg)
		}
		if e := msg.GetEvent().GetEvent(); e != nil {
			events = append(events, e)
		}
		terminal = msg.GetEvent().GetTerminal()
	}
}

// mustCall makes a call that has to complete and returns its final text.
func mustCall(t *testing.T, ctx context.Context, c clients, text string) string {
	t.Helper()
	terminal, events, err := call(ctx, c, text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if terminal.GetOutcome() != "completed" {
		t.Fatalf("%q ended as %s: %s %s\n%s", text, terminal.GetOutcome(), terminal.GetRun().GetReason(), terminal.GetRun().GetMessage(), story(events))
	}
	return terminal.GetRun().GetText()
}

// story tells what tools did, for failures.
func story(events []*threadv1.Event) string {
	var b strings.Builder
	for _, e := range events {
		if d := e.GetPayload().GetToolDispatched(); d != nil {
			fmt.Fprintf(&b, "  -> %s %s\n", d.GetName(), d.GetArgumentsJson())
		}
		if r := e.GetPayload().GetToolEnded().GetResult(); r != nil {
			fmt.Fprintf(&b, "  <- %s %v %.300s\n", r.GetName(), r.GetStatus(), r.GetText())
		}
	}
	return b.String()
}

// read returns a file as the user's agent sees it.
func read(ctx context.Context, c clients, path string) (string, error) {
	got, err := c.files.Read(ctx, &fsv1.ReadRequest{Path: path})
	return got.GetText(), err
}
