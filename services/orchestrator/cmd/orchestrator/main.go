// Command orchestrator serves agents over gRPC.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/orchestrator"
)

func main() {
	os.Exit(run.Main(run.Spec[orchestrator.Config]{
		Name: "orchestrator", Description: "Gantry's orchestrator: agents, runs and threads.", Address: "127.0.0.1:7401",
		New: func(ctx context.Context, cfg orchestrator.Config, env run.Env) (run.Service, error) {
			deps, err := orchestrator.Dial(cfg, env.Dial)
			if err != nil {
				return nil, err
			}
			deps.Logger = env.Logger
			return orchestrator.New(ctx, cfg, deps)
		},
	}))
}
