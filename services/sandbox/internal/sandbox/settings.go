package sandbox

import "time"

// Settings are the rules by which a [Manager] keeps sandboxes.
type Settings struct {
	// DefaultDriver is used when a request names none. Empty: the first available of the given drivers.
	DefaultDriver string
	// MaxSandboxes bounds live sandboxes on this machine.
	MaxSandboxes int
	// MaxPerTenant bounds those of one tenant, MaxPerUser those of one user. 0: half of MaxSandboxes, and no bound.
	MaxPerTenant, MaxPerUser int
	// MaxWaiters bounds callers that wait for one bucket's sandbox, and those that wait for a free place.
	MaxWaiters int
	// Defaults and Maximum are the limits of a sandbox whose caller states none, and those that no caller exceeds.
	Defaults, Maximum Limits
	// IdleTimeout is how long a sandbox is kept without holders and running commands; MaxIdleTimeout bounds what a caller may ask for.
	IdleTimeout, MaxIdleTimeout time.Duration
	// SnapshotInterval is how often a sandbox that may have changed is saved while it lives. 0: only when it is released.
	SnapshotInterval time.Duration
	// SaveAfter is how long after its last change a sandbox that nobody holds is saved. 0: not before SnapshotInterval has passed.
	SaveAfter time.Duration
	// OrphanTimeout is how long a supervisor keeps an unused sandbox that no service asks for. See [Spec].
	OrphanTimeout time.Duration
	// KeepSnapshots is how many unpinned snapshots of a bucket are kept, of those that were asked for and of the others each. 0: all.
	KeepSnapshots int
	// LeaseDuration is the life of a lease whose caller states none.
	LeaseDuration time.Duration
	// Tick is how often leases, idle times and the health of sandboxes are looked at.
	Tick time.Duration
}

// DefaultSettings are sensible on one machine.
func DefaultSettings() Settings {
	d := DefaultLimits()
	return Settings{
		MaxSandboxes: 64, MaxPerUser: 16, MaxWaiters: 256, Defaults: d,
		Maximum: Limits{
			MemoryBytes: 8 << 30, Processes: 4096, CPUMilli: 8000, DiskBytes: 8 << 30, DiskEntries: 2_000_000,
			TempBytes: 1 << 30, OpenFiles: 16384, FileBytes: 4 << 30,
		},
		IdleTimeout: 15 * time.Minute, MaxIdleTimeout: 24 * time.Hour, SnapshotInterval: 5 * time.Minute, SaveAfter: 2 * time.Second,
		OrphanTimeout: time.Hour, KeepSnapshots: 10,
		LeaseDuration: time.Minute, Tick: time.Second,
	}
}

// perTenant is the bound for one tenant.
func (s Settings) perTenant() int {
	if s.MaxPerTenant > 0 {
		return s.MaxPerTenant
	}
	return max(s.MaxSandboxes/2, 1)
}

// capped returns the limits, none above most.
func (l Limits) capped(most Limits) Limits {
	for _, f := range []struct{ have, most *int64 }{
		{&l.MemoryBytes, &most.MemoryBytes}, {&l.Processes, &most.Processes}, {&l.CPUMilli, &most.CPUMilli},
		{&l.DiskBytes, &most.DiskBytes}, {&l.DiskEntries, &most.DiskEntries}, {&l.TempBytes, &most.TempBytes},
		{&l.OpenFiles, &most.OpenFiles}, {&l.FileBytes, &most.FileBytes},
	} {
		if *f.most > 0 && *f.have > *f.most {
			*f.have = *f.most
		}
	}
	return l
}
