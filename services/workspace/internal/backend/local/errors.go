package local

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// diskError turns an error of the system into one of a class. Errors that have one pass unchanged.
func diskError(err error) error {
	if _, typed := errors.AsType[*errdefs.Error](err); typed || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	cause := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		cause = "no space left"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		cause = "the directory is read-only"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, fsops.ReasonNameUnsupported, "the path is too long for the disk: %w", err)
	default:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the disk can't be written or read")
	}
	return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the store can't be written: "+cause+": %w", err).With("cause", cause)
}
