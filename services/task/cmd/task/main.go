// Command task serves Gantry's background tasks over gRPC.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/task"
)

func main() {
	os.Exit(run.Main(run.Spec[task.Config]{
		Name: "task", Description: "Gantry's task service: background work, leases and schedules.", Address: "127.0.0.1:7405",
		New: func(ctx context.Context, cfg task.Config, env run.Env) (run.Service, error) {
			deps := task.Deps{Logger: env.Logger}
			if cfg.Threads != "" {
				threads, err := env.Dial(cfg.Threads)
				if err != nil {
					return nil, err
				}
				deps.Threads = threads
			}
			return task.New(ctx, cfg, deps)
		},
	}))
}
