package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/demo"
)

// person is a user of a tenant with something that nobody else must find.
type person struct {
	tenant, user, session string
	// canaries are in everything that the person did.
	canaries []string
	ctx      context.Context
}

// testTenants has users of two tenants work at once, among them one id in both tenants, and then looks as each of them for the
// canaries of all: one's own are everywhere, the others' nowhere.
func testTenants(t *testing.T, g Target) {
	c := g.clients()
	name := unique("ana")
	people := []*person{{tenant: acme, user: name}, {tenant: acme, user: unique("ben")}, {tenant: globex, user: name}}
	var wait sync.WaitGroup
	for _, p := range people {
		p.session = unique("s")
		p.ctx = g.as(t, p.tenant, "helper", p.user, p.session)
		p.canaries = []string{unique("canary")}
		wait.Go(func() { p.work(t, g, c) })
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	for _, p := range people {
		found := scan(t, p, c)
		for place, text := range found {
			for _, other := range people {
				for _, canary := range other.canaries {
					if other != p && strings.Contains(text, canary) {
						t.Errorf("%s of %s finds %s of %s in %s", p.user, p.tenant, other.user, other.tenant, place)
					}
				}
			}
		}
		// A scan that finds nothing at all would pass for isolation.
		for _, place := range []string{"files", "sandbox", "memory", "memory search", "threads", "tasks"} {
			if !strings.Contains(found[place], p.canaries[0]) {
				t.Errorf("the scan of %s does not find what %s of %s put there:\n%.2000s", place, p.user, p.tenant, found[place])
			}
		}
		for _, other := range people {
			if other != p {
				trespass(t, g, c, p, other)
			}
		}
	}
}

// work leaves the person's canaries in files, a sandbox, memory, a thread, and a task; and it makes the demonstration.
func (p *person) work(t *testing.T, g Target, c clients) {
	canary := p.canaries[0]
	terminal, events, err := call(p.ctx, c, fmt.Sprintf("Write %[1]q to secret.txt. Run `cat secret.txt`. Remember that my canary is %[1]s. Ask the clerk subagent to write \"a note\" to %[1]s.txt.", canary))
	if err != nil || terminal.GetOutcome() != "completed" {
		t.Errorf("%s of %s: %s, %v\n%s", p.user, p.tenant, terminal.GetOutcome(), err, story(events))
	}
	report, err := demo.Run(g.as(t, p.tenant, "reviewer", "", ""), demo.Clients{
		Files: c.files, Memory: c.memory, Threads: c.threads, Tasks: c.tasks, Sandbox: c.sandbox, Runs: c.runs,
	}, demo.Show{Line: func(string, ...any) {}, Event: func(*orchestratorv1.RunEvent) {}})
	if err != nil {
		t.Errorf("the demonstration beside %s of %s: %v", p.user, p.tenant, err)
		return
	}
	for _, check := range report.Checks {
		if check.Problem != "" {
			t.Errorf("the demonstration beside %s of %s: %s: %s", p.user, p.tenant, check.What, check.Problem)
		}
	}
	p.canaries = append(p.canaries, strings.TrimPrefix(report.User, "demo-"))
}

// trespass asks for things of another by their names.
func trespass(t *testing.T, g Target, c clients, p, other *person) {
	t.Helper()
	tasks, err := c.tasks.ListTasks(other.ctx, &taskv1.ListTasksRequest{})
	if err != nil || len(tasks.GetTasks()) == 0 {
		t.Fatalf("tasks of %s: %v, %v", other.user, tasks, err)
	}
	boxes, err := c.sandbox.List(other.ctx, &sandboxv1.ListRequest{})
	if err != nil || len(boxes.GetSandboxes()) == 0 {
		t.Fatalf("sandboxes of %s: %v, %v", other.user, boxes, err)
	}
	box := boxes.GetSandboxes()[0].GetSandboxId()
	theirs := g.as(t, p.tenant, "helper", p.user, other.session) // my credential, their session
	claimed := identity.NewContext(p.ctx, identity.Identity{Tenant: other.tenant, Agent: "helper", User: other.user, Session: other.session, ScopeUnset: true})
	for what, try := range map[string]func() error{
		"reads the task": func() error {
			_, err := c.tasks.GetTask(p.ctx, &taskv1.GetTaskRequest{TaskId: tasks.GetTasks()[0].GetId()})
			return err
		},
		"cancels the task": func() error {
			_, err := c.tasks.CancelTask(p.ctx, &taskv1.CancelTaskRequest{TaskId: tasks.GetTasks()[0].GetId()})
			return err
		},
		"reads the sandbox": func() error {
			_, err := c.sandbox.Get(p.ctx, &sandboxv1.GetRequest{SandboxId: box})
			return err
		},
		"runs a command in the sandbox": func() error {
			_, err := c.sandbox.RunCommand(p.ctx, &sandboxv1.RunCommandRequest{SandboxId: box, Command: &sandboxv1.Command{Argv: []string{"true"}}})
			return err
		},
		"destroys the sandbox": func() error {
			_, err := c.sandbox.Destroy(p.ctx, &sandboxv1.DestroyRequest{SandboxId: box, Force: true})
			return err
		},
		"reads the thread": func() error {
			_, err := c.threads.Head(theirs, &threadv1.HeadRequest{})
			return err
		},
		"reads the run": func() error {
			_, err := c.runs.GetRun(theirs, &orchestratorv1.GetRunRequest{RunId: "latest"})
			return err
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s of %s %s of %s of %s", p.user, p.tenant, what, other.user, other.tenant)
		}
	}
	// Metadata that names another user is refused; the tenant is that of the credential, whatever the metadata says.
	if other.user != p.user {
		if text, err := read(claimed, c, "secret.txt"); err == nil {
			t.Errorf("%s reads a file by claiming to be %s: %q", p.user, other.user, text)
		}
	}
}
