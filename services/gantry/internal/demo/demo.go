// Package demo makes one call that uses every part of Gantry, and checks each effect of it by reads of its own.
//
// The checks trust nothing that the call said: they read files by their hash, the record of the command from the sandbox, the fact from another
// session, and the child's own journal. So a service that only answers OK is found out.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// agent is the example that the demo calls.
const agent = "reviewer"

// Clients are those of the services that the demo uses and checks.
type Clients struct {
	Files   fsv1.FilesystemServiceClient
	Memory  memoryv1.MemoryServiceClient
	Threads threadv1.ThreadServiceClient
	Tasks   taskv1.TaskServiceClient
	Sandbox sandboxv1.SandboxServiceClient
	Runs    orchestratorv1.RunServiceClient
}

// Show is how the demo tells what happens.
type Show struct {
	Line  func(format string, args ...any)
	Event func(*orchestratorv1.RunEvent)
}

// Check is one effect that must be there.
type Check struct {
	What    string
	Problem string // empty: it is there
}

// Report is what was found.
type Report struct {
	Agent, User string
	Checks      []Check
}

// OK says whether every effect was found.
func (r *Report) OK() bool {
	for _, c := range r.Checks {
		if c.Problem != "" {
			return false
		}
	}
	return len(r.Checks) > 0
}

// demo is one run of it. The mark is new each time, so nothing that an earlier run left can pass for an effect of this one.
type demo struct {
	Clients
	show       Show
	mark, user string
}

// Run makes the call and checks it. An error means that the demo could not be made; effects that are missing are in the report.
func Run(ctx context.Context, c Clients, show Show) (*Report, error) {
	mark := strings.ToLower(rand.Text()[:8])
	d := &demo{Clients: c, show: show, mark: mark, user: "demo-" + mark}
	report := &Report{Agent: agent, User: d.user}

	first := d.as(ctx, d.user, "first-"+mark)
	show.Line("%s asks %s:\n  %s\n", d.user, agent, d.instruction())
	if _, err := d.call(first, d.instruction(), show.Event); err != nil {
		return nil, err
	}
	for _, check := range []struct {
		what string
		find func(context.Context) error
	}{
		{"knowledge was read", d.knowledge}, {"a file was written and edited", d.file}, {"a command ran in the sandbox", d.command},
		{"a fact was saved, for this user alone", d.fact}, {"a subagent did its part", d.child},
	} {
		report.Checks = append(report.Checks, verdict(check.what, check.find(first)))
	}
	show.Line("")
	report.Checks = append(report.Checks,
		verdict("the same user is known in a new session", d.recall(d.as(ctx, d.user, "second-"+mark), true)),
		verdict("another user is not told", d.recall(d.as(ctx, "other-"+mark, "third-"+mark), false)))
	return report, nil
}

func verdict(what string, err error) Check {
	if err != nil {
		return Check{what, "(" + err.Error() + ")"}
	}
	return Check{What: what}
}

func (d *demo) path() string { return "reports/" + d.mark + ".md" }

func (d *demo) instruction() string {
	return fmt.Sprintf("Read knowledge/KNOWLEDGE.md. Write \"Draft of review %[1]s\" to %[2]s. In %[2]s replace \"Draft\" with \"Result\". Run `sha256sum %[2]s`. "+
		"Remember that my release code is %[1]s. Ask the security subagent to list the files in knowledge. Then summarise what you did.", d.mark, d.path())
}

func (d *demo) as(ctx context.Context, user, session string) context.Context {
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: agent, User: user, Session: session, ScopeUnset: true})
}

// call runs to the end and returns the final text. A run that does not complete is an error.
func (d *demo) call(ctx context.Context, text string, show func(*orchestratorv1.RunEvent)) (string, error) {
	stream, err := d.Runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{Text: text}})
	if err != nil {
		return "", err
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", errdefs.New(errdefs.ErrUnavailable, "gantry.demo", "STREAM_BROKEN", "the call's stream ended without a terminal message")
		}
		if err != nil {
			return "", err
		}
		show(msg.GetEvent())
		if t := msg.GetEvent().GetTerminal(); t != nil {
			if t.GetOutcome() != "completed" {
				return "", errdefs.New(errdefs.ErrFailedPrecondition, "gantry.demo", "CALL_FAILED", "the call ended as %s: %s", t.GetOutcome(), t.GetRun().GetMessage())
			}
			return t.GetRun().GetText(), nil
		}
	}
}

// recall asks for the fact in a session that never heard it.
func (d *demo) recall(ctx context.Context, known bool) error {
	id, _ := identity.FromContext(ctx)
	d.show.Line("%s asks in a new session: What is my release code?", id.User)
	answer, err := d.call(ctx, "What is my release code?", func(*orchestratorv1.RunEvent) {})
	if err != nil {
		return err
	}
	d.show.Line("  %s", strings.Join(strings.Fields(answer), " "))
	switch told := strings.Contains(answer, d.mark); {
	case known && !told:
		return errors.New("the answer does not have the code")
	case !known && told:
		return errors.New("the answer has the code of somebody else")
	}
	return nil
}
