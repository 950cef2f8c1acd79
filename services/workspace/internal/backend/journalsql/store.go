package journalsql

import (
	"context"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	// removeChunk bounds the rows that one operation removes, so that a long journal's removal does not hold up heartbeats.
	removeChunk = 1000
	// reapChunk bounds the threads that one operation takes from a dead owner.
	reapChunk = 1000
	// ownerMemory is how long a dead owner is remembered, and refused.
	ownerMemory = 24 * time.Hour
	// lookAhead bounds the events that one page looks at when most are filtered out.
	lookAhead = 4096
)

// Store is a [journal.Store] in a database.
type Store struct {
	db     DB
	notify *Notifier
	turns  journal.Turns
	quit   chan struct{}
	once   sync.Once
}

var _ journal.Store = (*Store)(nil)

// New returns the store over a database whose tables exist; n is the notifier that the database sends to, weight that of a tenant when due threads
// are handed out (nil: 1 for all). It removes what an interrupted Delete left. After an error the database is the caller's to close.
func New(ctx context.Context, db DB, n *Notifier, weight func(tenant string) int) (*Store, error) {
	s := &Store{db: db, notify: n, turns: journal.Turns{Weight: weight}, quit: make(chan struct{})}
	return s, s.finishRemovals(ctx)
}

// Close implements [journal.Store].
func (s *Store) Close() (err error) {
	s.once.Do(func() {
		close(s.quit)
		err = s.db.Close()
	})
	return err
}

// writing is [DB.Write] for an operation with a result. The result is read only when the operation has ended: a caller that gives up leaves
// it behind running.
func writing[R any](ctx context.Context, s *Store, f func(*Tx) (R, error)) (R, error) {
	var out, none R
	err := s.db.Write(ctx, func(t *Tx) (err error) {
		out, err = f(t)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// reading is [DB.Read] for an operation with a result.
func reading[R any](ctx context.Context, s *Store, f func(*View) (R, error)) (R, error) {
	var out, none R
	err := s.db.Read(ctx, func(v *View) (err error) {
		out, err = f(v)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}
