package sqlite

import (
	"errors"
	"time"
)

// Config holds the settings of the store.
type Config struct {
	// Path of the database file. Its folder is made when it is not there.
	Path string
	// Readers is how many connections read. Zero: 4.
	Readers int
	// MaxBatch is how many transactions are committed together at most. Zero: 64.
	MaxBatch int
	// MaxQueue is how many transactions wait for their turn at most before callers wait outside. Zero: 256.
	MaxQueue int
	// Now is the clock of the store. Nil: the machine's.
	Now func() time.Time
}

func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("sqlite: no path")
	}
	if c.Readers <= 0 {
		c.Readers = 4
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = 64
	}
	if c.MaxQueue <= 0 {
		c.MaxQueue = 256
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}
