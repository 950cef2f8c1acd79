package task

import (
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the domain of the reasons below.
const Domain = "gantry.task.v1"

// The reasons, as in the ErrorReason enum of the API.
const (
	ReasonNotFound            = "TASK_NOT_FOUND"
	ReasonEnded               = "TASK_ENDED"
	ReasonLeaseLost           = "LEASE_LOST"
	ReasonQueueFull           = "QUEUE_FULL"
	ReasonTooLarge            = "TOO_LARGE"
	ReasonParentNotFound      = "PARENT_NOT_FOUND"
	ReasonParentEnded         = "PARENT_ENDED"
	ReasonDepth               = "DEPTH_EXCEEDED"
	ReasonThreadNotAllowed    = "THREAD_NOT_ALLOWED"
	ReasonEffectMismatch      = "EFFECT_MISMATCH"
	ReasonEffectExpired       = "EFFECT_EXPIRED"
	ReasonRequestMismatch     = "REQUEST_MISMATCH"
	ReasonInteractionNotFound = "INTERACTION_NOT_FOUND"
	ReasonInteractionClosed   = "INTERACTION_CLOSED"
	ReasonNothingToWaitFor    = "NOTHING_TO_WAIT_FOR"
	ReasonResultEmpty         = "RESULT_EMPTY"
	ReasonCursorExpired       = "CURSOR_EXPIRED"
	ReasonTokenInvalid        = "TOKEN_INVALID"
	ReasonNotRetryable        = "NOT_RETRYABLE"
	ReasonCapabilityMissing   = "CAPABILITY_MISSING"
	ReasonWorkerNotAllowed    = "WORKER_NOT_ALLOWED"
	ReasonTooManyWaiters      = "TOO_MANY_WAITERS"
	ReasonStoreUnavailable    = "STORE_UNAVAILABLE"
	ReasonScheduleNotFound    = "SCHEDULE_NOT_FOUND"
	ReasonScheduleInvalid     = "SCHEDULE_INVALID"
	ReasonRevisionConflict    = "REVISION_CONFLICT"
	ReasonTimeInvalid         = "TIME_INVALID"
)

// Errorf makes an error of this domain.
func Errorf(class error, reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(class, Domain, reason, format, args...)
}

// NotFound is the error for a task that the caller does not see, whether it exists or not.
func NotFound(id string) error {
	return Errorf(errdefs.ErrNotFound, ReasonNotFound, "no such task").With("task_id", id)
}

func ended(t *Task) error {
	return Errorf(errdefs.ErrFailedPrecondition, ReasonEnded, "the task has ended").With("task_id", t.ID).With("state", t.State.String())
}

func leaseLost(t *Task, token int64) error {
	return Errorf(errdefs.ErrAborted, ReasonLeaseLost, "the lease is not the present one; stop working on the task").
		With("task_id", t.ID).With("fencing_token", strconv.FormatInt(token, 10)).With("state", t.State.String())
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
