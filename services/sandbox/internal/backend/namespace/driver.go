package namespace

import (
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

var _ sandbox.Driver = (*Driver)(nil)

// Driver makes sandboxes of this kind.
type Driver struct {
	cfg Config

	mu    sync.Mutex
	slots map[int]string // slot to instance
}

// New returns the driver. It makes the state directory and changes nothing else.
func New(cfg Config) (*Driver, error) {
	if cfg.CgroupParent == "" {
		cfg.CgroupParent = "gantry-sandbox"
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, slots: map[int]string{}}, nil
}

// Name implements [sandbox.Driver].
func (d *Driver) Name() string { return Name }

// Capabilities implements [sandbox.Driver]. Projection needs a second user inside, which only root can map.
func (d *Driver) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Isolation: true, Limits: true, Snapshots: true, Projection: os.Geteuid() == 0}
}

// Create implements [sandbox.Driver].
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if spec.HostDir != "" {
		return nil, sandbox.Errorf(errdefs.ErrInvalidArgument, sandbox.ReasonCommandInvalid, "the namespace driver has a workspace of its own and takes no host directory")
	}
	for _, f := range d.Probe(ctx) {
		if f.Required && !f.OK {
			return nil, sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonDriverUnavailable,
				"the namespace driver needs %s: %s; %s", f.Name, f.Detail, f.Fix).With("feature", f.Name)
		}
	}
	h, err := findHierarchy("/proc/self", d.cfg.CgroupParent)
	if err != nil {
		return nil, err
	}
	conf := launch{RootFS: d.cfg.RootFS, Groups: h, Slot: -1}
	if os.Geteuid() == 0 {
		slot, err := d.takeSlot(spec.ID)
		if err != nil {
			return nil, err
		}
		conf.Slot = slot
	}
	spec.Driver = Name
	c, err := supervisor.Launch(ctx, d.cfg.Dir, spec, conf, d.reap)
	if err != nil {
		d.freeSlot(spec.ID)
		return nil, err
	}
	return c, nil
}

// takeSlot reserves a range of user ids. Services with other directories begin elsewhere, so that their ranges seldom meet; where they do, the
// namespaces still part them.
func (d *Driver) takeSlot(id string) (int, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.cfg.Dir))
	first := int(h.Sum32() % maxSlots)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range maxSlots {
		slot := (first + i) % maxSlots
		if d.slots[slot] == "" {
			d.slots[slot] = id
			return slot, nil
		}
	}
	return 0, sandbox.Errorf(errdefs.ErrResourceExhausted, sandbox.ReasonLimitReached, "all %d ranges of user ids are in use", maxSlots)
}

func (d *Driver) freeSlot(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for slot, owner := range d.slots {
		if owner == id {
			delete(d.slots, slot)
		}
	}
}

// reap removes what an instance without a supervisor has left: the death of the supervisor has ended init and with it all processes and mounts, so
// the control groups are what remains.
func (d *Driver) reap(dir string, spec sandbox.Spec) error {
	defer d.freeSlot(spec.ID)
	conf, err := supervisor.Config[launch](dir)
	if err != nil || conf.Groups.check() != nil {
		return nil // nothing was started
	}
	return group{h: conf.Groups, id: spec.ID}.destroy()
}

// sweepAge is how old an empty control group must be to count as forgotten: one that is just being filled is younger.
const sweepAge = time.Minute

// sweep removes the control groups of instances whose supervisor and directory are both gone, as after a kill -9 and a removed data directory. Whose they were
// does not matter: they are empty.
func (d *Driver) sweep() {
	h, err := findHierarchy("/proc/self", d.cfg.CgroupParent)
	if err != nil || h.check() != nil {
		return
	}
	entries, _ := os.ReadDir(h.Unified)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		g := group{h: h, id: e.Name()}
		if text, err := os.ReadFile(filepath.Join(g.unified(), "cgroup.events")); err == nil && strings.Contains(string(text), "populated 0") {
			_ = g.destroy()
		}
	}
}

// Adopt implements [sandbox.Driver].
func (d *Driver) Adopt(ctx context.Context) (live []sandbox.Instance, lost []sandbox.Lost, err error) {
	defer d.sweep()
	return supervisor.Adopt(ctx, d.cfg.Dir, d.reap, func(spec sandbox.Spec, config launch) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if config.Slot >= 0 {
			d.slots[config.Slot] = spec.ID
		}
	})
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error { return nil }
