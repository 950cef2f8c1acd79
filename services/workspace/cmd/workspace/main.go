// Command workspace serves Gantry's workspace service.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/workspace"
)

func main() {
	os.Exit(run.Main(run.Spec[workspace.Config]{
		Name: "workspace", Description: "Gantry's workspace service: files, layers, definitions and the journal of threads.", Address: workspace.DefaultAddress,
		New: func(ctx context.Context, cfg workspace.Config, env run.Env) (run.Service, error) {
			return workspace.New(ctx, cfg, workspace.Deps{Logger: env.Logger})
		},
	}))
}
