package journalpostgres

import (
	"log/slog"
	"time"
)

const (
	// maxGroup bounds the commits of one round trip: enough to hide the wait for the disk, few enough for the first one not to wait for the last.
	maxGroup = 64
	// maxQueue bounds the commits that wait. More are refused at once with a time to come again.
	maxQueue = 4096
	// committers is the number of connections that commit groups. The second works while the first waits for the disk.
	committers = 2
	// groupTime bounds a group's round trip, after which its commits are of unknown outcome. A caller that wants to wait less does.
	groupTime = 15 * time.Second
	// maxTries bounds the runs of a transaction that the database asks to be repeated.
	maxTries = 8
	// migrationLock is the advisory lock under which replicas that start together migrate one after another.
	migrationLock = 0x67616e7472796a
	// ownerMemory is how long a dead owner is remembered, and refused.
	ownerMemory = 24 * time.Hour
)

// Config says where the journal is. Only DSN must be set.
type Config struct {
	// DSN as a URL or in keyword form. A pooler between must keep sessions, not transactions.
	DSN string
	// MaxConns bounds the connections of this process, apart from the listening one and those of the committers. 0: 16.
	MaxConns int32
	// Now replaces the database's clock. For tests.
	Now func() time.Time
	// Weight of a tenant when due threads are handed out. Nil: 1 for all.
	Weight func(tenant string) int
	// Log gets what nobody waits for. Nil: nothing is logged.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.MaxConns <= 0 {
		c.MaxConns = 16
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// now is the time for statements: 0 for the database's.
func (c Config) now() int64 {
	if c.Now == nil {
		return 0
	}
	return c.Now().UnixNano()
}
