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
	// maxHold is how far the clock may run back without being noticed.
	maxHold = time.Second
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
