package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

// lasting are settings whose data outlives the process, on every backend; also with routes between two.
var lasting = map[string]func(testing.TB) workspace.Config{
	workspace.BackendLocal:    func(tb testing.TB) workspace.Config { return settings(tb, workspace.BackendLocal) },
	workspace.BackendSQLite:   func(tb testing.TB) workspace.Config { return settings(tb, workspace.BackendSQLite) },
	workspace.BackendPostgres: func(tb testing.TB) workspace.Config { return settings(tb, workspace.BackendPostgres) },
	workspace.BackendRedis:    func(tb testing.TB) workspace.Config { return settings(tb, workspace.BackendRedis) },
	workspace.BackendObject: func(tb testing.TB) workspace.Config {
		cfg := settings(tb, workspace.BackendObject)
		cfg.Object = "file://" + tb.TempDir()
		return cfg
	},
	"routed": routed,
}

// On every backend, layers mean the same over a template that is stored, and are the same after a restart.
func TestLayersOverStored(t *testing.T) {
	for name, settings := range lasting {
		t.Run(name, func(t *testing.T) {
			workspacetest.RunLayers(testkit.Wrap(t), func(t testkit.T) workspacetest.Layers {
				return restartable(t, settings(t))
			})
		})
	}
}

// The same over a template that is a directory of the host, as its engineers change it under way.
func TestLayersOverDirectory(t *testing.T) {
	for name, settings := range lasting {
		t.Run(name, func(t *testing.T) {
			workspacetest.RunLayers(testkit.Wrap(t), func(t testkit.T) workspacetest.Layers {
				cfg, dir := settings(t), t.TempDir()
				cfg.Agents = map[string]string{"layered": dir}
				l := restartable(t, cfg)
				l.Mounted = cfg.Backend == workspace.BackendLocal
				l.Put = func(files []*workspacev1.TemplateFile) { fill(t, dir, files) }
				return l
			})
		})
	}
}

// restartable is a service that can be started anew over its data.
func restartable(t testkit.T, cfg workspace.Config) workspacetest.Layers {
	conn, stop := launch(t, cfg, access.Options{})
	t.Cleanup(func() { stop() })
	return workspacetest.Layers{Conn: conn, Agent: "layered", Restart: func() grpc.ClientConnInterface {
		stop()
		conn, stop = launch(t, cfg, access.Options{})
		return conn
	}}
}

// fill makes a directory hold exactly these files.
func fill(t testing.TB, dir string, files []*workspacev1.TemplateFile) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		mode := os.FileMode(0o644)
		if f.GetMode() != 0 {
			mode = os.FileMode(f.GetMode())
		}
		name := filepath.Join(dir, f.GetPath())
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.GetContent(), mode); err != nil {
			t.Fatal(err)
		}
	}
}
