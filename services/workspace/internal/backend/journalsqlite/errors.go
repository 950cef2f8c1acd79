package journalsqlite

import (
	"errors"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var errBusy = errdefs.New(errdefs.ErrUnavailable, journal.Domain, "", "the journal store has too much to do").RetryIn(100 * time.Millisecond)

func errNewer(have, known int) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, journal.Domain, "",
		"the journal file has schema %d and this program knows %d; use a newer program", have, known)
}

// failed gives an error of the driver a class. Typed errors and those of contexts stay as they are. The driver's text is for the log alone.
func failed(err error) error {
	if err == nil || journalsql.IsTyped(err) {
		return err
	}
	var driver *sqlite.Error
	if !errors.As(err, &driver) {
		return errdefs.Wrap(err, errdefs.ErrInternal, journal.Domain, "", "the journal store failed")
	}
	// The low byte is the primary code.
	switch driver.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return errdefs.Wrap(err, errdefs.ErrDataLoss, journal.Domain, journal.ReasonJournalDamaged, "the journal's file is damaged")
	case sqlite3.SQLITE_FULL:
		return errdefs.Wrap(err, errdefs.ErrResourceExhausted, journal.Domain, "", "the journal's disk is full")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, journal.Domain, "", "the journal's file cannot be opened for writing")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, journal.Domain, "", "the journal's file is busy").RetryIn(100 * time.Millisecond)
	case sqlite3.SQLITE_IOERR:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, journal.Domain, "", "the journal's disk failed")
	}
	return errdefs.Wrap(err, errdefs.ErrInternal, journal.Domain, "", "the journal store failed")
}
