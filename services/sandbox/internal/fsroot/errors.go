package fsroot

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the domain of the reasons below: the proto package whose ErrorReason enum holds them.
const Domain = "gantry.filesystem.v1"

// Reasons of errors, as in the ErrorReason enum of the proto package.
const (
	ReasonPathInvalid      = "PATH_INVALID"
	ReasonNotFound         = "PATH_NOT_FOUND"
	ReasonExists           = "PATH_EXISTS"
	ReasonIsDirectory      = "IS_DIRECTORY"
	ReasonNotDirectory     = "NOT_A_DIRECTORY"
	ReasonNotEmpty         = "DIRECTORY_NOT_EMPTY"
	ReasonRevisionConflict = "REVISION_CONFLICT"
	ReasonQuotaExceeded    = "QUOTA_EXCEEDED"
	ReasonTooLarge         = "TOO_LARGE"
	ReasonOutsideRoot      = "OUTSIDE_ROOT"
	ReasonReadOnly         = "READ_ONLY"
	ReasonNotRegular       = "NOT_REGULAR"
	ReasonNotAllowed       = "PATH_NOT_ALLOWED"
	ReasonNameUnsupported  = "NAME_UNSUPPORTED"
)

func fail(class error, reason, path, format string, args ...any) error {
	return errdefs.New(class, Domain, reason, format, args...).With("path", path)
}

// translate turns an error number into a typed error about path. write says that the operation changes something.
func translate(path string, write bool, err error) error {
	var typed *errdefs.Error
	if err == nil || errors.As(err, &typed) {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return fail(errdefs.ErrNotFound, ReasonNotFound, path, "nothing has the path %q", path)
	case errors.Is(err, unix.EEXIST):
		return fail(errdefs.ErrAlreadyExists, ReasonExists, path, "%q exists", path)
	case errors.Is(err, unix.EISDIR):
		return fail(errdefs.ErrFailedPrecondition, ReasonIsDirectory, path, "%q is a directory", path)
	case errors.Is(err, unix.ENOTDIR):
		return fail(errdefs.ErrFailedPrecondition, ReasonNotDirectory, path, "a parent of %q is not a directory", path)
	case errors.Is(err, unix.ENOTEMPTY):
		return fail(errdefs.ErrFailedPrecondition, ReasonNotEmpty, path, "the directory %q is not empty", path)
	case errors.Is(err, unix.EXDEV):
		return fail(errdefs.ErrPermissionDenied, ReasonOutsideRoot, path, "a link in %q leads out of the workspace", path)
	case errors.Is(err, unix.ELOOP):
		return fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, path, "the links in %q form a loop or lead to a kernel object", path)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, path, "a name in the path is longer than 255 bytes")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fail(errdefs.ErrResourceExhausted, ReasonQuotaExceeded, path, "the workspace is full: no bytes or no entries are left")
	case errors.Is(err, unix.EFBIG):
		return fail(errdefs.ErrResourceExhausted, ReasonTooLarge, path, "%q would be larger than a file may be", path)
	case errors.Is(err, unix.EINVAL):
		return fail(errdefs.ErrInvalidArgument, ReasonNameUnsupported, path, "the file system cannot hold the name %q", path)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		if write {
			return fail(errdefs.ErrPermissionDenied, ReasonReadOnly, path, "%q is read-only here", path)
		}
		return fail(errdefs.ErrPermissionDenied, ReasonNotAllowed, path, "%q is not readable for the sandbox's user", path)
	}
	return errdefs.New(errdefs.ErrInternal, Domain, "", "the file system failed on %q: %w", path, err)
}
