package sqlite

import (
	"database/sql"
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// errClosed is the error of a store that was closed.
var errClosed = task.Errorf(errdefs.ErrUnavailable, task.ReasonStoreUnavailable, "the store is closed").With("cause", "closed")

// storeError gives an error of the database a class. sql.ErrNoRows and errors that have a class already stay.
func storeError(err error) error {
	var typed *errdefs.Error
	if err == nil || errors.Is(err, sql.ErrNoRows) || errors.As(err, &typed) {
		return err
	}
	unavailable := func(cause string) error {
		return errdefs.Wrap(err, errdefs.ErrUnavailable, task.Domain, task.ReasonStoreUnavailable, "the store can't be used now: "+cause).With("cause", cause)
	}
	var native *sqlite.Error
	if errors.As(err, &native) {
		switch native.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return unavailable("no space left")
		case sqlite3.SQLITE_READONLY:
			return unavailable("read-only")
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
			return unavailable("locked")
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			return unavailable("input/output error")
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return errdefs.Wrap(err, errdefs.ErrDataLoss, task.Domain, "", "the store is damaged")
		}
	}
	if errors.Is(err, sql.ErrConnDone) {
		return unavailable("closed")
	}
	return errdefs.Wrap(err, errdefs.ErrInternal, task.Domain, "", "the store failed")
}
