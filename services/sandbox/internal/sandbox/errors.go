package sandbox

import "github.com/gantry-agents/gantry/libs/errdefs"

// Domain is the domain of the reasons below: the proto package whose ErrorReason enum holds them.
const Domain = "gantry.sandbox.v1"

// Reasons of errors, as in the ErrorReason enum of the proto package.
const (
	ReasonSandboxNotFound     = "SANDBOX_NOT_FOUND"
	ReasonExecNotFound        = "EXEC_NOT_FOUND"
	ReasonSnapshotNotFound    = "SNAPSHOT_NOT_FOUND"
	ReasonDriverUnavailable   = "DRIVER_UNAVAILABLE"
	ReasonDriverNotConfigured = "DRIVER_NOT_CONFIGURED"
	ReasonLimitReached        = "LIMIT_REACHED"
	ReasonBusy                = "SANDBOX_BUSY"
	ReasonFenced              = "FENCED"
	ReasonLeaseExpired        = "LEASE_EXPIRED"
	ReasonSandboxLost         = "SANDBOX_LOST"
	ReasonSandboxPaused       = "SANDBOX_PAUSED"
	ReasonCommandInvalid      = "COMMAND_INVALID"
	ReasonCommandNotFound     = "COMMAND_NOT_FOUND"
	ReasonCwdNotFound         = "CWD_NOT_FOUND"
	ReasonProcessLimit        = "PROCESS_LIMIT"
	ReasonEffectMismatch      = "EFFECT_MISMATCH"
	ReasonEffectExpired       = "EFFECT_EXPIRED"
	ReasonExecEnded           = "EXEC_ENDED"
	ReasonExecLost            = "EXEC_LOST"
	ReasonStdinClosed         = "STDIN_CLOSED"
	ReasonSnapshotDamaged     = "SNAPSHOT_DAMAGED"
	ReasonSnapshotTooLarge    = "SNAPSHOT_TOO_LARGE"
	ReasonSnapshotPinned      = "SNAPSHOT_IN_USE"
	ReasonNotImplemented      = "NOT_IMPLEMENTED"
	ReasonStateInUse          = "STATE_IN_USE"
	ReasonStateLost           = "SANDBOX_STATE_LOST"
)

// Errorf makes an error of this package's domain. See [errdefs.New] for %w.
func Errorf(class error, reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(class, Domain, reason, format, args...)
}

// Unimplemented is the answer of an operation that belongs to a later version. The hint says what to do instead.
func Unimplemented(what, hint string) error {
	return Errorf(errdefs.ErrUnimplemented, ReasonNotImplemented, "%s is not implemented yet: %s", what, hint).With("operation", what)
}

// NotFound is the error of a sandbox that does not exist, or that belongs to another bucket: the two look the same.
func NotFound(id string) error {
	return Errorf(errdefs.ErrNotFound, ReasonSandboxNotFound, "no sandbox %q", id).With("sandbox", id)
}
