// Command memory serves Gantry's memory over gRPC.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/memory"
)

func main() {
	os.Exit(run.Main(run.Spec[memory.Config]{
		Name: "memory", Description: "Gantry's memory service: facts, search and consolidation.", Address: "127.0.0.1:7403",
		New: func(ctx context.Context, cfg memory.Config, env run.Env) (run.Service, error) {
			deps, err := memory.Dial(cfg, env.Dial)
			if err != nil {
				return nil, err
			}
			deps.Logger = env.Logger
			return memory.New(ctx, cfg, deps)
		},
	}))
}
