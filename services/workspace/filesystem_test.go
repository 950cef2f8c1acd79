package workspace_test

import (
	"testing"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fstest"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

var profile = fstest.Profile{Layers: true, Watch: true, Effects: true, ArbitraryNames: true}

func TestFilesystem(t *testing.T) {
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite, workspace.BackendPostgres} {
		t.Run(backend, func(t *testing.T) {
			conn := connect(t, backend)
			fstest.Run(testkit.Wrap(t), func(testkit.T) fstest.Target {
				return fstest.Target{Client: filesystemv1.NewFilesystemServiceClient(conn), Profile: profile}
			})
		})
	}
}
