// Command gateway serves Gantry over HTTP.
package main

import (
	"context"
	"os"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/services/gateway"
)

func main() {
	os.Exit(run.Main(run.Spec[gateway.Config]{
		Name: "gateway", Description: "Gantry's HTTP gateway: REST, streams and the OpenAPI page. Its gRPC address answers health checks.",
		Address: "127.0.0.1:7406",
		New: func(ctx context.Context, cfg gateway.Config, env run.Env) (run.Service, error) {
			deps, err := gateway.Dial(cfg, env.Dial)
			if err != nil {
				return nil, err
			}
			deps.Logger, deps.Authenticated = env.Logger, env.AuthMode == access.ModeJWT
			return gateway.New(ctx, cfg, deps)
		},
	}))
}
