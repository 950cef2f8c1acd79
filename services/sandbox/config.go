package sandbox

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Config holds the settings of the service.
type Config struct {
	Dir              string        `name:"dir" help:"Directory for the state of sandboxes, snapshots and caches. One service owns it." default:"./.gantry/sandbox"`
	Workspace        string        `name:"workspace-address" help:"Address of the workspace service, for projection. Empty: nothing is projected."`
	Driver           string        `name:"driver" help:"Driver for requests that name none: namespace or process. Empty: the first that works here."`
	RootFS           string        `name:"rootfs" help:"Directory whose usr/ and etc/ commands see. Empty: those of the host, read-only."`
	CgroupParent     string        `name:"cgroup-parent" help:"Control group for sandboxes, below that of the service." default:"gantry-sandbox"`
	ProcessEnabled   bool          `name:"process-enabled" help:"Allow the process driver, which runs commands on this host without isolation. Only where every command is trusted."`
	ProcessRoots     []string      `name:"process-roots" help:"Directories in which the process driver may work when a request names one."`
	MaxSandboxes     int           `name:"max-sandboxes" help:"Most live sandboxes on this machine." default:"64"`
	MaxPerTenant     int           `name:"max-per-tenant" help:"Most live sandboxes of one tenant. 0: half of max-sandboxes."`
	MaxPerUser       int           `name:"max-per-user" help:"Most live sandboxes of one user of a tenant. All buckets without a user count as one. 0: no bound of its own." default:"16"`
	MemoryBytes      int64         `name:"memory-bytes" help:"Memory of a sandbox whose request states none." default:"1073741824"`
	Processes        int64         `name:"processes" help:"Processes of a sandbox whose request states none." default:"256"`
	CPUMilli         int64         `name:"cpu-milli" help:"Processor time of a sandbox whose request states none, in thousandths of a core." default:"1000"`
	DiskBytes        int64         `name:"disk-bytes" help:"Bytes in the workspace of a sandbox whose request states none. They count as memory too." default:"536870912"`
	MaxMemoryBytes   int64         `name:"max-memory-bytes" help:"Most memory that a sandbox gets, whatever its request states." default:"8589934592"`
	IdleTimeout      time.Duration `name:"idle-timeout" help:"How long an unused sandbox is kept before it is saved and taken down." default:"15m"`
	SaveAfter        time.Duration `name:"save-after" help:"How long after its last change a sandbox that nobody holds is saved. 0: only every snapshot-interval." default:"2s"`
	SnapshotInterval time.Duration `name:"snapshot-interval" help:"How often a changed sandbox is saved while it is in use. 0: not before it is left." default:"5m"`
	KeepSnapshots    int           `name:"keep-snapshots" help:"Unpinned snapshots kept for each bucket, of those asked for and of the automatic ones each. 0: all." default:"10"`
	OrphanTimeout    time.Duration `name:"orphan-timeout" help:"How long an unused sandbox outlives a service that does not come back. One with unsaved changes is kept for a day." default:"1h"`
	ReleaseOnStop    bool          `name:"release-on-stop" help:"Save and take down unused sandboxes when the service stops. Otherwise they go on and are adopted by the next start."`
	Tick             time.Duration `name:"tick" help:"How often leases, idle times and the health of sandboxes are looked at." default:"1s" hidden:""`
}

// DefaultConfig returns the defaults, which the tags state too.
func DefaultConfig() Config {
	return Config{
		Dir: "./.gantry/sandbox", CgroupParent: "gantry-sandbox", MaxSandboxes: 64, MaxPerUser: 16, MemoryBytes: 1 << 30, Processes: 256, CPUMilli: 1000,
		DiskBytes: 512 << 20, MaxMemoryBytes: 8 << 30, IdleTimeout: 15 * time.Minute, SaveAfter: 2 * time.Second, SnapshotInterval: 5 * time.Minute,
		KeepSnapshots: 10, OrphanTimeout: time.Hour, Tick: time.Second,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return fmt.Errorf("sandbox: dir is empty")
	case c.Driver != "" && c.Driver != "namespace" && c.Driver != "process":
		return fmt.Errorf("sandbox: driver %q is neither namespace nor process", c.Driver)
	case c.Driver == "process" && !c.ProcessEnabled:
		return fmt.Errorf("sandbox: driver process needs process-enabled, which says that every command is trusted")
	case c.MaxSandboxes < 1:
		return fmt.Errorf("sandbox: max-sandboxes is %d, at least 1 is needed", c.MaxSandboxes)
	case c.MemoryBytes < 16<<20 || c.Processes < 16 || c.CPUMilli < 10 || c.DiskBytes < 1<<20:
		return fmt.Errorf("sandbox: a limit is too small for any command: at least 16 MiB of memory, 16 processes, 10 cpu-milli, 1 MiB of disk")
	case c.IdleTimeout < 0 || c.SnapshotInterval < 0 || c.KeepSnapshots < 0 || c.SaveAfter < 0 || c.MaxPerTenant < 0 || c.MaxPerUser < 0 || c.OrphanTimeout < 0 || c.Tick < time.Millisecond:
		return fmt.Errorf("sandbox: a time or number is negative, or tick is under 1ms")
	case c.RootFS != "" && !filepath.IsAbs(c.RootFS):
		return fmt.Errorf("sandbox: rootfs %q is not an absolute path", c.RootFS)
	}
	return nil
}

// settings are the rules for the manager.
func (c Config) settings() sandbox.Settings {
	s := sandbox.DefaultSettings()
	s.DefaultDriver, s.MaxSandboxes, s.KeepSnapshots = c.Driver, c.MaxSandboxes, c.KeepSnapshots
	s.Defaults.MemoryBytes, s.Defaults.Processes, s.Defaults.CPUMilli, s.Defaults.DiskBytes = c.MemoryBytes, c.Processes, c.CPUMilli, c.DiskBytes
	s.Maximum.MemoryBytes = max(c.MaxMemoryBytes, c.MemoryBytes)
	s.MaxPerTenant, s.MaxPerUser, s.SaveAfter, s.OrphanTimeout = c.MaxPerTenant, c.MaxPerUser, c.SaveAfter, c.OrphanTimeout
	s.IdleTimeout, s.SnapshotInterval, s.Tick = c.IdleTimeout, c.SnapshotInterval, c.Tick
	return s
}
