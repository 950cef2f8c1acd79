package memory

import (
	"errors"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the domain of the reasons below: the proto package.
const Domain = "gantry.memory.v1"

// The reasons, as in the ErrorReason enum of the proto package.
const (
	ReasonPathNotMemory    = "PATH_NOT_MEMORY"
	ReasonFileNotFound     = "FILE_NOT_FOUND"
	ReasonLineOutOfRange   = "LINE_OUT_OF_RANGE"
	ReasonTextEmpty        = "TEXT_EMPTY"
	ReasonQueryEmpty       = "QUERY_EMPTY"
	ReasonTokenInvalid     = "TOKEN_INVALID"
	ReasonTimeZoneUnknown  = "TIME_ZONE_UNKNOWN"
	ReasonEffectMismatch   = "EFFECT_MISMATCH"
	ReasonConflict         = "CONFLICT"
	ReasonModelMissing     = "MODEL_MISSING"
	ReasonModelFailed      = "MODEL_FAILED"
	ReasonIndexLocked      = "INDEX_LOCKED"
	ReasonIndexDamaged     = "INDEX_DAMAGED"
	ReasonIndexBehind      = "INDEX_BEHIND"
	ReasonIndexesBusy      = "INDEXES_BUSY"
	ReasonThreadsMissing   = "THREADS_MISSING"
	ReasonFactNotFound     = "FACT_NOT_FOUND"
	ReasonVersionNotFound  = "VERSION_NOT_FOUND"
	ReasonStateDamaged     = "STATE_DAMAGED"
	ReasonRevisionConflict = "REVISION_CONFLICT"
	ReasonPatternInvalid   = "PATTERN_INVALID"
	ReasonImportInvalid    = "IMPORT_INVALID"
)

// What an implementation of Files reports, beside the error of the file service, which it wraps as well.
var (
	// ErrNoFile: there is no such file.
	ErrNoFile = errors.New("memory: no such file")
	// ErrChanged: the condition of a write does not hold; somebody else wrote.
	ErrChanged = errors.New("memory: the file has changed")
	// ErrEffectMismatch: another change was recorded under the effect id.
	ErrEffectMismatch = errors.New("memory: another change has this effect id")
)

func invalid(reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(errdefs.ErrInvalidArgument, Domain, reason, format, args...)
}

func notFound(reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(errdefs.ErrNotFound, Domain, reason, format, args...)
}

func effectMismatch(id string) error {
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonEffectMismatch, "another request was recorded under this effect id").With("effect", id)
}

func outOfRange(format string, args ...any) *errdefs.Error {
	return errdefs.New(errdefs.ErrOutOfRange, Domain, ReasonLineOutOfRange, format, args...)
}

// TokenInvalid is the error of a token that this service did not give for the request.
func TokenInvalid(field string) error {
	return invalid(ReasonTokenInvalid, "%s is not one of this request", field).With("field", field)
}
