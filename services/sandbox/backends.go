package sandbox

import (
	"path/filepath"

	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/localstore"
	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/namespace"
	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/process"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// factories are the parts of the drivers that run inside a supervisor.
func factories() map[string]supervisor.Factory {
	return map[string]supervisor.Factory{
		namespace.Name: namespace.NewSpawner,
		process.Name:   process.NewSpawner,
	}
}

// drivers makes the drivers, the preferred one first.
func drivers(cfg Config) ([]sandbox.Driver, error) {
	ns, err := namespace.New(namespace.Config{
		Dir: filepath.Join(cfg.Dir, "live", namespace.Name), RootFS: cfg.RootFS, CgroupParent: cfg.CgroupParent,
	})
	if err != nil {
		return nil, err
	}
	host, err := process.New(process.Config{
		Dir: filepath.Join(cfg.Dir, "live", process.Name), Enabled: cfg.ProcessEnabled, HostRoots: cfg.ProcessRoots,
	})
	if err != nil {
		return nil, err
	}
	return []sandbox.Driver{ns, host}, nil
}

// snapshots makes the snapshot store.
func snapshots(cfg Config) (sandbox.SnapshotStore, error) {
	return localstore.New(filepath.Join(cfg.Dir, "snapshots"))
}
