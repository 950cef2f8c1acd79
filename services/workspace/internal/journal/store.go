package journal

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// Store keeps journals. Package storetest tests every sentence here; a backend is right when it passes.
//
// For every method: a change is durable when the method returns without an error, and not made at all when it returns one of the typed errors of this
// package; after a context's error or UNAVAILABLE it may or may not have been made, and a repeat is harmless. Operations have a total order
// and take the time at which the store accepted them, which runs backwards only
// when the clock is set back by more than a second. Limits (limits.go) are checked and their error is TOO_LARGE, or
// INVALID_ARGUMENT for what no caller may send. Nothing of one thread, user or tenant is ever visible through the key of another one.
// After Close every method is UNAVAILABLE.
type Store interface {
	Ownership
	Writer
	Mailbox
	Reader
	Catalog
	Blobs
	Keeper
	// Close ends long polls and waits for the operations that were accepted. It may be called twice.
	Close() error
}

// Ownership says who writes.
type Ownership interface {
	// Heartbeat keeps an owner and every thread it holds for [OwnerLife] from now, which it returns; an unknown owner begins to live. leaving ends it at once (and is nothing
	// when it has ended).
	// OWNER_EXPIRED when the owner lived and does not any more; from then on its commits are refused. The address is that of the last heartbeat.
	Heartbeat(ctx context.Context, owner Owner, leaving bool) (life time.Duration, err error)

	// Acquire makes the owner the writer of the thread and raises the epoch; the epoch of a key never repeats, not even after Delete. The thread is made
	// when it does not exist. An owner that holds the thread gets it again with the same epoch. OWNED while another owner lives and
	// fence is false. OWNER_EXPIRED when the caller does not live.
	Acquire(ctx context.Context, t identity.Thread, owner Owner, fence bool) (Claim, error)

	// Release gives the thread up. Nothing happens when the owner does not hold it with that epoch, nor when it does not exist.
	Release(ctx context.Context, t identity.Thread, owner string, epoch int64) error

	// ClaimExpired judges owners whose time has run out, and acquires due threads for the caller, at most request.Max. It returns as soon as there is
	// one, or none after request.MaxWait; it never polls the store faster than twice a second for changes that others make. Tenants take turns, each
	// as many threads as its weight. Threads whose open run belongs to a task, and threads that hold a required event of a schema
	// above request.MaxSchema, are left alone. OWNER_EXPIRED when the caller does not live
	// at the time of an attempt.
	ClaimExpired(ctx context.Context, request ClaimRequest) ([]Claim, error)
}

// ClaimRequest asks for due threads.
type ClaimRequest struct {
	// Owner that asks.
	Owner Owner
	// Max threads, 1 to [MaxClaims].
	Max int
	// MaxSchema is the highest event schema that the caller knows.
	MaxSchema uint32
	// MaxWait bounds the wait. 0: do not wait.
	MaxWait time.Duration
}

// Writer appends.
type Writer interface {
	// Commit makes the batch, all or nothing. In this order:
	//
	//   - FENCED when the epoch is not the thread's, also for a batch that was committed before (its owner must learn that it holds the thread no
	//     more). The repeat of a batch that released the thread is the exception: it is answered, for its owner claims nothing by it.
	//   - a batch id that was committed: the first answer (with the mail that is due now), or BATCH_MISMATCH when the content differs.
	//   - FENCED when the owner does not hold the thread; OWNER_EXPIRED when it was judged expired or has left. A clock alone refuses nothing.
	//   - SEQUENCE_CONFLICT when Expected is not the head.
	//   - MESSAGE_CONSUMED when a message to consume is unknown or consumed; MESSAGE_MISMATCH for a timer whose id has other content;
	//     BLOB_NOT_FOUND for a named blob that the tenant does not have.
	//
	// A thread that was deleted is FENCED, one that never was is THREAD_NOT_FOUND. Run: RunRunning opens the run in place of any other; RunSuspended parks
	// it; RunEnded closes it, and is nothing for a run that is not the open one. The due time is that of the state after the batch.
	Commit(ctx context.Context, t identity.Thread, b Batch) (Committed, error)
}

// Mailbox takes messages.
type Mailbox interface {
	// Post puts the message into the mailbox; the thread is made when it does not exist. duplicate says that a message of this id and content was there
	// before, consumed or not. MESSAGE_MISMATCH when its content differs. TOO_LARGE when the mailbox is full.
	Post(ctx context.Context, t identity.Thread, m Mail) (head Head, duplicate bool, err error)

	// ListMail returns messages that are not consumed, oldest first, at most limit and [PageBytes] (but at least one); those that are not due only when
	// future is set. THREAD_NOT_FOUND.
	ListMail(ctx context.Context, t identity.Thread, limit int, future bool) ([]Mail, error)
}

// Reader reads.
type Reader interface {
	// Head describes the thread. THREAD_NOT_FOUND.
	Head(ctx context.Context, t identity.Thread) (Head, error)

	// Read returns a page of events of one state of the thread, verified: JOURNAL_DAMAGED when a record is not what was written, with nothing after it.
	// THREAD_NOT_FOUND; CURSOR_INVALID when request.After is above the head.
	Read(ctx context.Context, t identity.Thread, request ReadRequest) (Page, error)

	// Await returns when the head is above after, at once or later; THREAD_NOT_FOUND when the thread does not exist, or stops to.
	// Commits of other processes on the same store are seen within a second.
	Await(ctx context.Context, t identity.Thread, after int64) error
}

// ReadRequest says which events.
type ReadRequest struct {
	// After is the sequence before the first event.
	After int64
	// Through is the last event to look at. 0: the head.
	Through int64
	// Types that are wanted. Empty: all.
	Types []string
	// Limit of events returned. 0: what a page holds ([PageEvents], [PageBytes] of payload, at least one event).
	Limit int
}

// Page is the answer of Read.
type Page struct {
	// Events in order.
	Events []Event
	// Next is the sequence to read on from: that of the last event looked at.
	Next int64
	// Head at the time of the page.
	Head Head
}

// Catalog lists the threads of one user.
type Catalog interface {
	// List returns threads, the one changed last first, with the token of the next page, empty on the last. A thread that changes while
	// pages are read moves to the front. CURSOR_INVALID for a token that is not of this user's list.
	List(ctx context.Context, u User, size int, token string) (heads []Head, next string, err error)

	// Changes returns threads that were made, committed to, redacted, forked into or deleted after the cursor (empty: ever), oldest change first, each
	// once, and the next cursor. Mail and ownership are no changes. CURSOR_INVALID when the cursor is not one of this user's in this store.
	Changes(ctx context.Context, u User, cursor string, size int) (Changes, error)
}

// Changes is one page of changes.
type Changes struct {
	// Heads of threads that changed and exist.
	Heads []Head
	// Deleted threads.
	Deleted []identity.Thread
	// Cursor for the next call.
	Cursor string
	// More says that there is more at once.
	More bool
}

// Blobs keeps bytes by hash.
type Blobs interface {
	// PutBlob stores the bytes for the tenant. A blob that no event names stays; one that events named goes with the last of them.
	PutBlob(ctx context.Context, tenant string, data []byte) (Sum, error)
	// GetBlob returns the bytes. BLOB_NOT_FOUND when the tenant has none of that hash, whoever else may; JOURNAL_DAMAGED when the bytes have another one.
	GetBlob(ctx context.Context, tenant string, sum Sum) ([]byte, error)
}

// Keeper looks after whole threads.
type Keeper interface {
	// Redact removes the payloads of the events, and of every later checkpoint that may repeat them, from the thread and all threads that share the
	// events, either way; then the blobs that nothing else names, and titles made from them. The bytes are overwritten in the store's files.
	// Owners may know what was removed until they take the thread again: a checkpoint that one commits before is stored as a tombstone.
	// An event that is a tombstone already counts nothing. CURSOR_INVALID for a sequence that is not there.
	Redact(ctx context.Context, t identity.Thread, seqs []int64, reason string) (Redacted, error)

	// Fork makes the thread of the same user in the session to, sharing the events up to at (0: the head) without copying. It has no owner, run or mail.
	// NO_FORK_POINT when at is not the end of a batch; CURSOR_INVALID when it is above the head; THREAD_EXISTS.
	Fork(ctx context.Context, t identity.Thread, at int64, to string) (Head, error)

	// Delete removes the thread, its mail and the events and blobs that no other thread needs; false when there is none. Durable and complete when
	// it returns; after a crash the rest is removed when the store opens.
	Delete(ctx context.Context, t identity.Thread) (bool, error)
}

// Redacted counts what Redact removed.
type Redacted struct{ Events, Blobs int }
