// Command sandbox serves Gantry's sandboxes.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/sandbox"
)

func main() {
	sandbox.MaybeInit()
	os.Exit(run.Main(run.Spec[sandbox.Config]{
		Name: "sandbox", Description: "Gantry's sandbox service: isolated processes and their files.", Address: "127.0.0.1:7404",
		New: func(ctx context.Context, cfg sandbox.Config, env run.Env) (run.Service, error) {
			deps := sandbox.Deps{Logger: env.Logger}
			if cfg.Workspace != "" {
				conn, err := env.Dial(cfg.Workspace)
				if err != nil {
					return nil, err
				}
				deps.Workspace = conn
			}
			return sandbox.New(ctx, cfg, deps)
		},
	}))
}
