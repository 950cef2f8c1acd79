package journalsql

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// DB is what a backend gives. Its errors are typed.
type DB interface {
	// Read runs f in one state of the store.
	Read(ctx context.Context, f func(*View) error) error
	// Write runs f in a transaction and returns when that is durable; then what f noted is sent to the [Notifier]. An error of f undoes
	// what f did. f may run more than once. When ctx ends first, f may still run.
	Write(ctx context.Context, f func(*Tx) error) error
	// Scrub overwrites what was removed, as far as the database lets it.
	Scrub(ctx context.Context)
	// Close ends the connections after the operations that were accepted.
	Close() error
}

// Session runs statements. Parameters are ? in order, or ?1, ?2, … throughout. What is true is 1, false 0.
type Session interface {
	// Do runs a statement of which only the effect matters; its error may come with that of a later one.
	Do(query string, args ...any) error
	// Exec returns how many rows changed.
	Exec(query string, args ...any) (int64, error)
	// Insert returns the id of the new row.
	Insert(query string, args ...any) (int64, error)
	// Get scans the one row of a query into dest; false when there is none.
	Get(query string, args []any, dest ...any) (bool, error)
	// Each calls f for every row of a query until f wants no more.
	Each(query string, args []any, f func(scan func(...any) error) (more bool, err error)) error
}

// View reads one state of the store.
type View struct {
	Session
	*Dialect
	// Now is when the store accepted the operation, by the store's clock.
	Now time.Time
}

// Tx changes the store.
type Tx struct {
	View
	// Notes are for the [Notifier], when the transaction is durable.
	Notes []Note
}

// Dialect is what differs between databases. Its zero value is for one that runs one transaction at a time.
type Dialect struct {
	// Lock ends a select of rows that are to stay as they are until the end of the transaction.
	Lock string
	// Keep is Lock that only keeps rows from being removed, or locked by Lock.
	Keep string
	// SkipLocked is Lock, leaving out rows that another transaction has locked.
	SkipLocked string
	// ByTurn is a hint to use the index threads_turn.
	ByTurn string
	// Place is the column with the place of a change in the feed of its user, when that is not the number of the change; and Unplaced, in an update,
	// says that there is none yet. Then the database is a [Settler].
	Place, Unplaced string
	// NextChange selects the number of the next change of the user ?1. Empty: one after the user's last.
	NextChange string
}

// Settler is a [DB] that gives changes their places in the feed when they are asked for: where transactions end in another order than they began,
// a place given in the transaction would come into sight after a later one, and who reads by places would miss it.
type Settler interface {
	// Settle gives places to the changes of a user's threads that have none.
	Settle(ctx context.Context, user string) error
}

func (d *Dialect) place() string {
	if d.Place == "" {
		return "change"
	}
	return d.Place
}

// ids returns the first column of a query.
func (v *View) ids(query string, args ...any) ([]int64, error) {
	var ids []int64
	err := v.Each(query, args, func(scan func(...any) error) (bool, error) {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return true, err
	})
	return ids, err
}

// ErrClosed is the error of a store that is closed.
var ErrClosed = errdefs.New(errdefs.ErrUnavailable, journal.Domain, "", "the journal store is closed")

// IsTyped says whether err is one that the caller shall see as it is.
func IsTyped(err error) bool {
	var typed interface{ Public() string }
	return errors.As(err, &typed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
