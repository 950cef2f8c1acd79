package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// mapError turns an error of the driver or the system into one of a class. Errors that have one pass unchanged.
func mapError(err error) error {
	if _, typed := errors.AsType[*errdefs.Error](err); typed || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return readOnly(err, "no space left")
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return readOnly(err, "the directory is read-only")
	}
	driver, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch driver.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return readOnly(err, "no space left")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return readOnly(err, "the database file can't be opened for writing")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the store is busy")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return errdefs.Wrap(err, errdefs.ErrDataLoss, fsops.Domain, "", "the database file is damaged")
	}
	return err
}

func readOnly(err error, cause string) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the store can't be written: "+cause+": %w", err).With("cause", cause)
}
