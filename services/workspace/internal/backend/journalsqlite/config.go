package journalsqlite

import (
	"log/slog"
	"time"
)

const (
	// maxGroup bounds the operations of one transaction: enough to hide the wait for the disk, few enough for the first one not to wait for the last.
	maxGroup = 64
	// maxQueue bounds the operations that wait. More are refused at once with a time to come again.
	maxQueue = 4096
	// removeChunk bounds the rows that one operation removes, so that a long journal's removal does not hold up heartbeats.
	removeChunk = 1000
	// reapChunk bounds the threads that one operation takes from a dead owner.
	reapChunk = 1000
	// ownerMemory is how long a dead owner is remembered, and refused.
	ownerMemory = 24 * time.Hour
	// maxHold is how far the clock may run back without being noticed.
	maxHold = time.Second
	// lookAhead bounds the events that one page looks at when most are filtered out.
	lookAhead = 4096
)

// Config says where the journal is. Only Path must be set.
type Config struct {
	// Path of the file. Its directory is made when it is missing.
	Path string
	// Readers is the number of reading connections. 0: 4.
	Readers int
	// Now is the store's clock. Nil: time.Now.
	Now func() time.Time
	// Weight of a tenant when due threads are handed out. Nil: 1 for all.
	Weight func(tenant string) int
	// Log gets what nobody waits for. Nil: nothing is logged.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Readers <= 0 {
		c.Readers = 4
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
