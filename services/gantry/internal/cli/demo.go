package cli

import (
	"context"
	"errors"

	"github.com/gantry-agents/gantry/services/gantry/internal/demo"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// Demo shows Gantry at work.
type Demo struct {
	suite.Config
	Exit bool `help:"End after the call, with status 0 only if every effect of it was found by separate reads."`
}

// Run starts the suite, makes one call, checks what it did, and goes on serving.
func (c *Demo) Run(ctx context.Context, env *Env) (err error) {
	if c.Workspaces == "" {
		c.Workspaces = "examples"
	}
	log := env.Quiet()
	s, err := suite.Start(ctx, c.Config, suite.Options{Logger: log})
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	env.Line("Gantry serves gRPC on %s and REST on http://%s. Model: %s.\n", s.Address(), s.HTTPAddress(), s.Model(ctx))
	clients := NewClients(s.Conn(suite.Orchestrator), s.Conn(suite.Workspace), s.Conn(suite.Memory), s.Conn(suite.Sandbox), s.Conn(suite.Task))
	renderer := NewRenderer(env.Out)
	report, err := demo.Run(ctx, demo.Clients{
		Files: clients.Files, Memory: clients.Memory, Threads: clients.Threads, Tasks: clients.Tasks, Sandbox: clients.Sandbox, Runs: clients.Runs,
	}, demo.Show{Line: env.Line, Event: renderer.Event})
	if err != nil {
		return err
	}
	env.Line("\nChecked by separate reads:")
	for _, check := range report.Checks {
		mark := "ok     "
		if check.Problem != "" {
			mark = "MISSING"
		}
		env.Line("  %s %s %s", mark, check.What, check.Problem)
	}
	if c.Exit {
		if !report.OK() {
			return exitCode(ExitFailed)
		}
		return nil
	}
	env.Line("\nGo on with:")
	env.Line("  gantry chat --addr %s --agent %s --user %s", s.Address(), report.Agent, report.User)
	env.Line("  curl -s http://%s/v1/runs:call -H 'Gantry-Agent: %s' -H 'Gantry-User: %s' -d '{\"input\":{\"text\":\"What is my release code?\"}}'", s.HTTPAddress(), report.Agent, report.User)
	env.Line("  gantry call --addr %s --agent analyst --user %s 'Run `wc -l knowledge/data/orders.csv`'", s.Address(), report.User)
	env.Line("\nServing. Ctrl-C ends it.")
	stopped = true
	return wait(ctx, s, log)
}
