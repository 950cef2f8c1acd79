package orchestrator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

// BenchmarkToolStep measures what the orchestrator adds to a step: a scripted model that answers at once, a tool that does nothing, a journal in memory. A step is
// a request, an answer, a decision, a call and its result; all commits go through gRPC with the full chain.
func BenchmarkToolStep(b *testing.B) {
	const steps = 40
	script := strings.Builder{}
	script.WriteString("turns:\n")
	for i := range steps {
		// Each call says something new, and each answer of the model has a number of its own, so that one script serves every run.
		fmt.Fprintf(&script, "  - {always: true, when: {step: %d}, calls: [{name: todo_write, arguments: {todos: [{content: item %d}]}}]}\n", i+1, i)
	}
	fmt.Fprintf(&script, "  - {always: true, when: {step: %d}, text: done}\n", steps+1)
	c := orchestratortest.NewCluster(b, script.String(), access.Config{})
	runs := orchestratorv1.NewRunServiceClient(c.Start(nil).Conn)
	before, n := c.Threads.Commits(), 0
	b.ResetTimer()
	for b.Loop() {
		n++
		ctx := identity.NewContext(context.Background(), identity.Identity{User: "bench", Session: fmt.Sprint(n)})
		spec := &orchestratorv1.AgentSpec{MaxSteps: steps + 10}
		resp, err := runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "go", Spec: spec}})
		if err != nil || resp.GetRun().GetState() != threadv1.RunState_RUN_STATE_COMPLETED || resp.GetRun().GetSteps() != steps+1 {
			b.Fatalf("%v, %v", resp, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n*steps), "µs/step")
	b.ReportMetric(float64(c.Threads.Commits()-before)/float64(n*steps), "commits/step")
}

// BenchmarkCall measures a run of one plain answer, from call to terminal message, on a thread of its own.
func BenchmarkCall(b *testing.B) {
	c := orchestratortest.NewCluster(b, "turns:\n  - {always: true, text: hello}\n", access.Config{})
	runs := orchestratorv1.NewRunServiceClient(c.Start(nil).Conn)
	n := 0
	for b.Loop() {
		n++
		ctx := identity.NewContext(context.Background(), identity.Identity{User: "bench", Session: fmt.Sprint(n)})
		if _, err := runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "go"}}); err != nil {
			b.Fatal(err)
		}
	}
}
