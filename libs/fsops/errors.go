package fsops

import (
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the proto package of the reasons below.
const Domain = "gantry.filesystem.v1"

// The reasons of gantry.filesystem.v1.ErrorReason, without the prefix.
const (
	ReasonPathInvalid        = "PATH_INVALID"
	ReasonPatternInvalid     = "PATTERN_INVALID"
	ReasonPathNotFound       = "PATH_NOT_FOUND"
	ReasonPathExists         = "PATH_EXISTS"
	ReasonIsDirectory        = "IS_DIRECTORY"
	ReasonNotADirectory      = "NOT_A_DIRECTORY"
	ReasonDirectoryNotEmpty  = "DIRECTORY_NOT_EMPTY"
	ReasonRevisionConflict   = "REVISION_CONFLICT"
	ReasonEditNoMatch        = "EDIT_NO_MATCH"
	ReasonEditAmbiguous      = "EDIT_AMBIGUOUS"
	ReasonEditInvalid        = "EDIT_INVALID"
	ReasonQuotaExceeded      = "QUOTA_EXCEEDED"
	ReasonTooLarge           = "TOO_LARGE"
	ReasonOutsideRoot        = "OUTSIDE_ROOT"
	ReasonReadOnly           = "READ_ONLY"
	ReasonNotRegular         = "NOT_REGULAR"
	ReasonEffectMismatch     = "EFFECT_MISMATCH"
	ReasonEffectExpired      = "EFFECT_EXPIRED"
	ReasonCursorExpired      = "CURSOR_EXPIRED"
	ReasonTokenInvalid       = "TOKEN_INVALID"
	ReasonCapabilityMissing  = "CAPABILITY_MISSING"
	ReasonStoreReadOnly      = "STORE_READ_ONLY"
	ReasonNameUnsupported    = "NAME_UNSUPPORTED"
	ReasonChecksumMismatch   = "CHECKSUM_MISMATCH"
	ReasonSandboxUnavailable = "SANDBOX_UNAVAILABLE"
	ReasonPathNotAllowed     = "PATH_NOT_ALLOWED"
	ReasonRevisionNotKept    = "REVISION_NOT_KEPT"
)

// ErrNotFound says that nothing visible has the path.
func ErrNotFound(path string) error {
	return fail(errdefs.ErrNotFound, ReasonPathNotFound, "%s does not exist", quote(path)).With("path", clip(path))
}

// ErrExists says that the path is taken. The revision is "" for a directory.
func ErrExists(path, revision string) error {
	return fail(errdefs.ErrAlreadyExists, ReasonPathExists, "%s exists", quote(path)).With("path", clip(path)).With("revision", revision)
}

// ErrIsDirectory says that a file operation was asked of a directory.
func ErrIsDirectory(path string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonIsDirectory, "%s is a directory", quote(path)).With("path", clip(path))
}

// ErrNotADirectory says that parent, which is the path or lies above it, is a file where a directory is needed.
func ErrNotADirectory(path, parent string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonNotADirectory, "%s is not a directory", quote(parent)).
		With("path", clip(path)).With("parent", clip(parent))
}

// ErrDirectoryNotEmpty says that a directory can't be deleted without recursion.
func ErrDirectoryNotEmpty(path string, entries int) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonDirectoryNotEmpty,
		"%s is not empty (%d entries); set recursive to delete it with all below it", quote(path), entries).
		With("path", clip(path)).With("entries", strconv.Itoa(entries))
}

// ErrRevisionConflict says that the current revision is another one than expected, and whose it is. An empty revision: the path does not exist.
func ErrRevisionConflict(path, revision, author string, at time.Time) error {
	if revision == "" {
		return fail(errdefs.ErrAborted, ReasonRevisionConflict, "%s does not exist any more", quote(path)).
			With("path", clip(path)).With("revision", "")
	}
	return fail(errdefs.ErrAborted, ReasonRevisionConflict, "%s was changed by %q at %s and has revision %s now",
		quote(path), author, at.UTC().Format(time.RFC3339), revision).
		With("path", clip(path)).With("revision", revision).With("author", author).With("time", at.UTC().Format(time.RFC3339Nano))
}

// ErrQuota says which quota of the bucket ("bytes" or "files") a change would exceed.
func ErrQuota(quota string, limit, used int64) error {
	return fail(errdefs.ErrResourceExhausted, ReasonQuotaExceeded, "the bucket may hold %d %s and holds %d", limit, quota, used).
		With("quota", quota).With("limit", strconv.FormatInt(limit, 10)).With("used", strconv.FormatInt(used, 10))
}

// ErrTooLarge says that one file or message is over its limit.
func ErrTooLarge(limit, size int64) error {
	return fail(errdefs.ErrResourceExhausted, ReasonTooLarge, "%d bytes are over the limit of %d", size, limit).
		With("limit_bytes", strconv.FormatInt(limit, 10)).With("size_bytes", strconv.FormatInt(size, 10))
}

// ErrOutsideRoot says that a link or mount leads out of the root.
func ErrOutsideRoot(path string) error {
	return fail(errdefs.ErrPermissionDenied, ReasonOutsideRoot, "%s leads out of the root", quote(path)).With("path", clip(path))
}

// ErrReadOnly says that the caller lacks the verb that writing the path needs. An empty verb: nobody may write it.
func ErrReadOnly(path, verb string) error {
	e := fail(errdefs.ErrPermissionDenied, ReasonReadOnly, "%s is read-only", quote(path))
	if verb != "" {
		e = fail(errdefs.ErrPermissionDenied, ReasonReadOnly, "%s is read-only without the verb %s", quote(path), verb).With("verb", verb)
	}
	return e.With("path", clip(path))
}

// ErrNotRegular says that the path is a device, a socket or a named pipe.
func ErrNotRegular(path string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonNotRegular, "%s is neither a regular file nor a directory", quote(path)).
		With("path", clip(path))
}

// ErrEffectMismatch says that another request was recorded under the effect id.
func ErrEffectMismatch(effect string) error {
	return fail(errdefs.ErrAborted, ReasonEffectMismatch, "another request was recorded under this effect id").With("effect", effect)
}

// ErrEffectExpired says that the effect id is so old that its record may be gone.
func ErrEffectExpired(effect string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonEffectExpired,
		"the effect id is too old: whether its effect took place is unknown").With("effect", effect)
}

// ErrCursorExpired says that changes after the cursor are not kept any more.
func ErrCursorExpired(cursor, oldest string) error {
	return fail(errdefs.ErrOutOfRange, ReasonCursorExpired, "changes are kept from cursor %s on: start again from a listing", oldest).
		With("cursor", cursor).With("oldest", oldest)
}

// ErrTokenInvalid says that a page token or cursor is not one that the server gave for this request.
func ErrTokenInvalid(field string) error {
	return fail(errdefs.ErrInvalidArgument, ReasonTokenInvalid, "%s was not given by this server for this request", field).With("field", field)
}

// ErrCapabilityMissing says that the implementer does not have the capability.
func ErrCapabilityMissing(capability string) error {
	return fail(errdefs.ErrUnimplemented, ReasonCapabilityMissing, "this filesystem does not offer %s", capability).With("capability", capability)
}

// ErrStoreReadOnly says that the store can't be written now. The cause is a few words for people, for example "no space left".
func ErrStoreReadOnly(cause string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonStoreReadOnly, "the store can't be written: %s", cause).With("cause", cause)
}

// ErrNameUnsupported says that a backend can't hold a name, and why.
func ErrNameUnsupported(path, problem string) error {
	return fail(errdefs.ErrInvalidArgument, ReasonNameUnsupported, "%s can't be kept here: %s", quote(path), problem).
		With("path", clip(path)).With("problem", problem)
}

// ErrChecksumMismatch says that the bytes of an upload don't fit the announced SHA-256.
func ErrChecksumMismatch(want, got string) error {
	return fail(errdefs.ErrAborted, ReasonChecksumMismatch, "the bytes that arrived have another SHA-256 than announced").
		With("want", want).With("got", got)
}

// ErrSandboxUnavailable says why no sandbox can be had for a path that lives inside one.
func ErrSandboxUnavailable(cause string) error {
	return fail(errdefs.ErrFailedPrecondition, ReasonSandboxUnavailable, "no sandbox can be had: %s", cause).With("cause", cause)
}

// ErrPathNotAllowed says that the capability of the caller does not cover the path.
func ErrPathNotAllowed(path, verb string) error {
	return fail(errdefs.ErrPermissionDenied, ReasonPathNotAllowed, "%s is not covered by what this call may touch (%s)", quote(path), verb).
		With("path", clip(path)).With("verb", verb)
}

// ErrRevisionNotKept says that a revision of the path is not kept any more, or never was one.
func ErrRevisionNotKept(path, revision string) error {
	return fail(errdefs.ErrNotFound, ReasonRevisionNotKept, "the revision %q of %s is not kept", clip(revision), quote(path)).
		With("path", clip(path)).With("revision", clip(revision))
}

func errPath(path, problem string) error {
	return fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, "path %s %s", quote(path), problem).
		With("path", clip(path)).With("problem", problem)
}

func fail(class error, reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(class, Domain, reason, format, args...)
}

// quote shows a path in a message: every character visible, the root as "/", long ones cut.
func quote(path string) string {
	if path == "" {
		return `"/"`
	}
	return strconv.Quote(clip(path))
}
