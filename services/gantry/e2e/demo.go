package e2e

import (
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/services/gantry/internal/demo"
)

// testDemo makes the demonstration's call, which uses every part, and has each effect checked by separate reads.
func testDemo(t *testing.T, g Target) {
	c := g.clients()
	report, err := demo.Run(g.as(t, acme, "reviewer", "", ""), demo.Clients{
		Files: c.files, Memory: c.memory, Threads: c.threads, Tasks: c.tasks, Sandbox: c.sandbox, Runs: c.runs,
	}, demo.Show{Line: t.Logf, Event: func(*orchestratorv1.RunEvent) {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range report.Checks {
		if check.Problem != "" {
			t.Errorf("%s: missing: %s", check.What, check.Problem)
		}
	}
	if !report.OK() {
		t.Error("the report is not OK")
	}
}
