package journal

import (
	"math"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// TypeCheckpoint is the one event type that the store knows: a projection of everything before it.
const TypeCheckpoint = "checkpoint/written"

// ReasonStaleCheckpoint is the reason in the tombstone of a checkpoint whose writer took the thread before a redaction.
const ReasonStaleCheckpoint = "the writer read the thread before a redaction"

// User is whose threads are listed together: (tenant, agent, user). An empty User field is the anonymous one.
type User struct{ Tenant, Agent, User string }

// UserOf returns the user that a thread belongs to.
func UserOf(t identity.Thread) User { return User{Tenant: t.Tenant, Agent: t.Agent, User: t.User} }

// Key returns the user as text; injective, and no user's key with "/" behind it is the beginning of another's.
func (u User) Key() string {
	return identity.EncodeSegment(u.Tenant) + "/" + identity.EncodeSegment(u.Agent) + "/" + identity.EncodeSegment(u.User)
}

// Owner is one boot of one orchestrator replica.
type Owner struct {
	// ID is "replica/boot": stable replica id, boot id new at every start.
	ID string
	// Address at which others reach the replica. Empty in one process.
	Address string
}

// BlobRef is a blob that a payload names.
type BlobRef struct {
	// SHA256 is its hash.
	SHA256 Sum
	// Optional says that the event may be committed when the blob is gone: it repeats what another thread said.
	Optional bool
}

// Event is one record of a journal. Seq and Time are the store's, PayloadHash and Redacted too; the rest is the writer's.
type Event struct {
	// Schema version of the payload, from 1.
	Schema uint32
	// ID is unique within the thread; the writer sees to it.
	ID string
	// Seq is the position, from 1.
	Seq int64
	// Time of the commit.
	Time time.Time
	// Type, for example "tool/result".
	Type string
	// RunID, TurnID, Step say where in the work the event belongs. May be empty.
	RunID, TurnID string
	Step          int32
	// Required: a reader that does not know the type must not go on.
	Required bool
	// Payload in the encoding of the RPC layer; the store does not look inside. Nil in a tombstone.
	Payload []byte
	// PayloadHash is the SHA-256 of the payload as first stored.
	PayloadHash Sum
	// Redacted says that the payload was removed, and Reason why.
	Redacted bool
	Reason   string
	// Blobs that the payload names. Only read by Commit.
	Blobs []BlobRef
}

// RunState is what a batch says about a run.
type RunState uint8

const (
	// RunNone: the batch says nothing, or the thread has no open run.
	RunNone RunState = iota
	// RunRunning opens the run, or takes it up again.
	RunRunning
	// RunSuspended parks it: nothing is due until a message wakes it.
	RunSuspended
	// RunEnded closes it.
	RunEnded
)

// Run is the open run of a thread.
type Run struct {
	// ID of the run. Empty: none is open.
	ID string
	// State is RunNone, RunRunning or RunSuspended.
	State RunState
	// TaskID is the task that the run works for; that task's worker looks after the thread. Empty: none.
	TaskID string
}

// Never is the due time of a thread without work.
var Never = time.Unix(0, math.MaxInt64)

// Head describes a thread.
type Head struct {
	// Thread is its key.
	Thread identity.Thread
	// Seq of the last event. 0: none.
	Seq int64
	// Epoch of the last acquisition.
	Epoch int64
	// Owner, if it lives. Empty id: none.
	Owner Owner
	// Run that is open.
	Run Run
	// CheckpointSeq is the last checkpoint that was not redacted. 0: none.
	CheckpointSeq int64
	// Created and Updated: when the thread was made, and when the last event was committed.
	Created, Updated time.Time
	// Title to show.
	Title string
	// MailCount counts messages that are not consumed.
	MailCount int
	// ForkedFrom and ForkedAt say where a fork comes from. Nil: no fork.
	ForkedFrom *identity.Thread
	ForkedAt   int64
}

// Claim is a thread that the caller owns now.
type Claim struct {
	// Head with the new epoch.
	Head Head
	// Previous is the owner before, when it did not release the thread. Empty id: none, or the caller itself.
	Previous Owner
}
