package process

import (
	"context"
	"os"
	"path/filepath"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

var _ sandbox.Driver = (*Driver)(nil)

// Name selects the driver.
const Name = "process"

// Config holds the settings of the driver.
type Config struct {
	// Dir is where instances keep their state, and their workspaces when they name no directory.
	Dir string
	// Enabled says that the operator trusts the commands.
	Enabled bool
	// HostRoots are the directories of which an instance may name one, or a directory below, as its workspace. Empty: none.
	HostRoots []string
}

// Driver runs commands on the host.
type Driver struct{ cfg Config }

// New returns the driver. It makes the state directory when it is enabled, and changes nothing else.
func New(cfg Config) (*Driver, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	if cfg.Enabled {
		err = os.MkdirAll(cfg.Dir, 0o700)
	}
	return &Driver{cfg: cfg}, err
}

// Name implements [sandbox.Driver].
func (d *Driver) Name() string { return Name }

// Capabilities implements [sandbox.Driver].
func (d *Driver) Capabilities() sandbox.Capabilities { return sandbox.Capabilities{} }

// Probe implements [sandbox.Driver].
func (d *Driver) Probe(context.Context) []sandbox.Feature {
	kill := sandbox.Feature{Name: "kill by control group", OK: cgroupParent() != "", Detail: "a control group for each exec", Fix: "run as root, or delegate a control group"}
	if !kill.OK {
		kill.Detail = "no writable control group: processes are found by ancestry and environment"
	}
	return []sandbox.Feature{
		{Name: "configured", Required: true, OK: d.cfg.Enabled, Detail: "commands run on the host, without isolation", Fix: "set process.enabled, if every command is trusted"},
		kill,
	}
}

// Create implements [sandbox.Driver].
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if !d.cfg.Enabled {
		return nil, sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonDriverNotConfigured,
			"the process driver runs commands on the host without isolation, so it must be enabled by the operator (process.enabled)")
	}
	if spec.HostDir != "" {
		dir, err := d.allowed(spec.HostDir)
		if err != nil {
			return nil, err
		}
		spec.HostDir = dir
	}
	spec.Driver = Name
	return supervisor.Launch(ctx, d.cfg.Dir, spec, struct{}{}, reap)
}

// allowed resolves a directory and checks that it is below one that the operator named.
func (d *Driver) allowed(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		for _, root := range d.cfg.HostRoots {
			root, err := filepath.EvalSymlinks(root)
			if err != nil {
				continue
			}
			if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
				return real, nil
			}
		}
	}
	return "", sandbox.Errorf(errdefs.ErrPermissionDenied, sandbox.ReasonDriverNotConfigured, "%q is not below a directory that the operator allows (process.roots)", dir)
}

// Adopt implements [sandbox.Driver].
func (d *Driver) Adopt(ctx context.Context) (live []sandbox.Instance, lost []sandbox.Lost, err error) {
	if !d.cfg.Enabled {
		return nil, nil, nil
	}
	return supervisor.Adopt(ctx, d.cfg.Dir, reap, func(sandbox.Spec, struct{}) {})
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error { return nil }

// reap ends what a dead supervisor left running.
func reap(dir string, spec sandbox.Spec) error {
	if parent := cgroupParent(); parent != "" {
		return destroyGroup(filepath.Join(parent, spec.ID))
	}
	killMarked(spec.ID, "")
	return nil
}
