package journal

import (
	"strconv"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Domain is the domain of the reasons below.
const Domain = "gantry.thread.v1"

// The reasons of this package's errors: the names of the ErrorReason enum of the proto package without their prefix.
const (
	ReasonThreadNotFound   = "THREAD_NOT_FOUND"
	ReasonFenced           = "FENCED"
	ReasonSequenceConflict = "SEQUENCE_CONFLICT"
	ReasonOwned            = "OWNED"
	ReasonOwnerExpired     = "OWNER_EXPIRED"
	ReasonBatchMismatch    = "BATCH_MISMATCH"
	ReasonMessageMismatch  = "MESSAGE_MISMATCH"
	ReasonMessageConsumed  = "MESSAGE_CONSUMED"
	ReasonTooLarge         = "TOO_LARGE"
	ReasonJournalDamaged   = "JOURNAL_DAMAGED"
	ReasonBlobNotFound     = "BLOB_NOT_FOUND"
	ReasonCursorInvalid    = "CURSOR_INVALID"
	ReasonNoForkPoint      = "NO_FORK_POINT"
	ReasonThreadExists     = "THREAD_EXISTS"
)

// NotFound is the error of a thread without a journal.
func NotFound(t identity.Thread) error {
	return errdefs.New(errdefs.ErrNotFound, Domain, ReasonThreadNotFound, "the thread has no journal").With("session", t.Session)
}

// Fenced is the error of a commit whose epoch is not the current one, or whose owner does not hold the thread any more.
func Fenced(epoch, current int64) error {
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonFenced, "epoch %d does not hold the thread, which is at epoch %d", epoch, current).
		With("epoch", number(epoch)).With("current_epoch", number(current))
}

// SequenceConflict is the error of a commit that expected another head.
func SequenceConflict(expected, head int64) error {
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonSequenceConflict, "the head is at %d, not at %d", head, expected).
		With("expected_seq", number(expected)).With("head_seq", number(head))
}

// Owned is the error of an acquisition while another owner lives.
func Owned(by Owner) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonOwned, "another live owner holds the thread").
		With("owner", by.ID).With("address", by.Address)
}

// OwnerExpired is the error of an owner that does not live.
func OwnerExpired(id string) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonOwnerExpired, "the owner has sent no heartbeat in time and holds nothing").
		With("owner", id)
}

// BatchMismatch is the error of a batch id that was used for other content.
func BatchMismatch(id string) error {
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonBatchMismatch, "the batch was committed with other content").With("batch_id", id)
}

// MessageMismatch is the error of a message id that was used for other content.
func MessageMismatch(id string) error {
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonMessageMismatch, "the message was posted with other content").With("message_id", id)
}

// MessageConsumed is the error of a commit that consumes a message which is not in the mailbox.
func MessageConsumed(id string) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonMessageConsumed, "the message is not in the mailbox").With("message_id", id)
}

// TooLarge is the error of something over its limit.
func TooLarge(what string, limit, size int64) error {
	return errdefs.New(errdefs.ErrResourceExhausted, Domain, ReasonTooLarge, "%s is over the limit of %d with %d", what, limit, size).
		With("limit", number(limit)).With("size", number(size))
}

// Damaged is the error of a record that is not what was written.
func Damaged(seq int64, what string) error {
	return errdefs.New(errdefs.ErrDataLoss, Domain, ReasonJournalDamaged, "the journal is damaged at %d: %s", seq, what).With("seq", number(seq))
}

// BlobNotFound is the error of a hash that no blob of the tenant has.
func BlobNotFound(sum Sum) error {
	return errdefs.New(errdefs.ErrNotFound, Domain, ReasonBlobNotFound, "no blob has this hash").With("sha256", sum.String())
}

// CursorInvalid is the error of a sequence or cursor that is not in the journal.
func CursorInvalid(after, head int64) error {
	return errdefs.New(errdefs.ErrOutOfRange, Domain, ReasonCursorInvalid, "there is no sequence %d, the head is at %d", after, head).
		With("after_seq", number(after)).With("head_seq", number(head))
}

// TokenInvalid is the error of a cursor or page token that this store did not make for this user.
func TokenInvalid() error {
	return errdefs.New(errdefs.ErrOutOfRange, Domain, ReasonCursorInvalid, "the cursor is not one of this list; begin anew without one")
}

// NoForkPoint is the error of a fork in the middle of a batch.
func NoForkPoint(seq, nearest int64) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonNoForkPoint, "%d is inside a batch, the nearest end of one before is %d", seq, nearest).
		With("seq", number(seq)).With("nearest", number(nearest))
}

// ThreadExists is the error of a fork onto a thread that exists.
func ThreadExists(t identity.Thread) error {
	return errdefs.New(errdefs.ErrAlreadyExists, Domain, ReasonThreadExists, "the session has a journal").With("session", t.Session)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
