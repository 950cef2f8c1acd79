package workspace_test

import (
	"testing"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/fstest"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

// routed are settings with routes in the middle of what the suites write.
func routed(tb testing.TB) workspace.Config {
	cfg := settings(tb, workspace.BackendSQLite)
	cfg.Routes = map[string]string{}
	for _, prefix := range []string{"knowledge", "skills/s", "d/e", "d/big.bin", "d/log", "a/b", "bulk", "memory", "log", "live", "many", "r/sub", "g", "v", "n/x", "new/place/e"} {
		cfg.Routes[prefix] = workspace.BackendLocal
	}
	cfg.Routes["knowledge/a.md"], cfg.Routes["d/e/b"] = workspace.BackendSQLite, workspace.BackendSQLite
	return cfg
}

// A service with routes passes what every service passes.
func TestRoutedFilesystem(t *testing.T) {
	conn := serve(t, routed(t), access.Options{})
	fstest.Run(testkit.Wrap(t), func(testkit.T) fstest.Target {
		return fstest.Target{Client: filesystemv1.NewFilesystemServiceClient(conn), Profile: profile}
	})
}

func TestRoutedWorkspace(t *testing.T) {
	conn := serve(t, routed(t), access.Options{})
	workspacetest.Run(testkit.Wrap(t), func(testkit.T) grpc.ClientConnInterface { return conn })
}
