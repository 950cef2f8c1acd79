package workspace_test

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

// Three services on one shared store, each with a data directory of its own, know at once what the others have done.
func TestReplicas(t *testing.T) {
	for name, change := range map[string]func(testing.TB, *workspace.Config){
		"postgres": func(tb testing.TB, cfg *workspace.Config) {
			cfg.Backend, cfg.Postgres = workspace.BackendPostgres, config.Secret(testkit.Postgres(tb))
		},
		"redis": func(tb testing.TB, cfg *workspace.Config) {
			cfg.Backend, cfg.Redis = workspace.BackendRedis, config.Secret(testkit.Redis(tb))
		},
		"object": func(tb testing.TB, cfg *workspace.Config) {
			cfg.Backend, cfg.Object = workspace.BackendObject, testkit.S3(tb)
		},
		"routed": func(tb testing.TB, cfg *workspace.Config) {
			cfg.Backend, cfg.Postgres, cfg.Redis = workspace.BackendPostgres, config.Secret(testkit.Postgres(tb)), config.Secret(testkit.Redis(tb))
			cfg.Routes = map[string]string{"knowledge": workspace.BackendRedis, "skills/s": workspace.BackendRedis, "d": workspace.BackendRedis, "only/3": workspace.BackendRedis}
		},
	} {
		t.Run(name, func(t *testing.T) {
			shared := workspace.DefaultConfig()
			change(t, &shared)
			var conns []grpc.ClientConnInterface
			for range 3 {
				cfg := settings(t, workspace.BackendSQLite) // for its directories
				cfg.Backend, cfg.Postgres, cfg.Redis, cfg.Object, cfg.Routes = shared.Backend, shared.Postgres, shared.Redis, shared.Object, shared.Routes
				conns = append(conns, serve(t, cfg, access.Options{}))
			}
			workspacetest.RunReplicas(testkit.Wrap(t), func(testkit.T) []grpc.ClientConnInterface { return conns })
		})
	}
}
