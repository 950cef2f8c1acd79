package bench

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

const (
	// steps is the number of tool steps of the long run.
	steps = 16
	// stepGoal is how many echoes a tool step may take: it compiles a request, commits to the journal several times, which is on
	// disk each time, and reads a file through the router.
	stepGoal = 300
)

// script is a model that takes no time: it reads a file as often as it is told to and then ends.
func script() string {
	return fmt.Sprintf(`turns:
  - {when: {user: "no steps"}, text: "done", always: true}
  - {when: {user: "all steps", step: %d}, text: "done", always: true}
  - {when: {user: "all steps"}, calls: [{name: read_file, arguments: {path: AGENTS.md}}], always: true}
`, steps+1)
}

// loop measures what a tool step costs: the difference between a run with many steps and one with none, shared among them.
func (b *bencher) loop(ctx context.Context, name string, over transport, conn func(string) grpc.ClientConnInterface) error {
	if !b.wanted(name) {
		return nil
	}
	runs := orchestratorv1.NewRunServiceClient(conn(procs.Orchestrator))
	run := func(text string, wantSteps int) func(context.Context) error {
		return func(ctx context.Context) error {
			got, err := runs.CallAgent(as(ctx, ""), &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: text}})
			if err != nil {
				return err
			}
			if r := got.GetRun(); r.GetState() != threadv1.RunState_RUN_STATE_COMPLETED || int(r.GetSteps()) != wantSteps {
				return fmt.Errorf("the run is %v after %d steps: %s", r.GetState(), r.GetSteps(), r.GetMessage())
			}
			return nil
		}
	}
	// A run of many steps takes long; twice the time makes up for the few that are seen.
	short, _, err := median(ctx, b.opts.Time, run("no steps", 1))
	if err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	long, n, err := median(ctx, 2*b.opts.Time, run("all steps", steps+1))
	if err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	step := (long - short) / steps
	ratio := step / b.echo[over]
	b.line(name, step, n, fmt.Sprintf("%.1f x echo over %s; a run without tools takes %s", ratio, over, time.Duration(short*1e3).Round(10*time.Microsecond)))
	b.report.Tell(name+"_us", round(step))
	b.report.Tell(name+"_run_us", round(short))
	b.report.AtMost(name+"_ratio", round(ratio), stepGoal)
	return nil
}

// oneRun makes a run and returns its session.
func oneRun(ctx context.Context, orchestrator grpc.ClientConnInterface) (string, error) {
	got, err := orchestratorv1.NewRunServiceClient(orchestrator).CallAgent(as(ctx, ""), &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "no steps"}})
	return got.GetRun().GetThread().GetSession(), err
}
