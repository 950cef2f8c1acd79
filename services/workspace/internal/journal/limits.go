package journal

import "time"

const (
	// OwnerLife is how long an owner lives from its last heartbeat. It sends one every 0.4 s, so three may be lost.
	OwnerLife = 1500 * time.Millisecond
	// Recheck bounds how long a change by another process on the same store stays unseen.
	Recheck = 500 * time.Millisecond

	// InlinePayloadBytes is the largest payload that is kept in the record itself.
	InlinePayloadBytes = 64 << 10
	// MaxPayloadBytes bounds the payload of an event; larger content belongs into a blob that the payload names.
	MaxPayloadBytes = 4 << 20
	// MaxBatchBytes bounds the payloads of a batch together.
	MaxBatchBytes = 12 << 20
	// MaxBatchEvents, MaxBatchConsume and MaxBatchMail bound the lists of a batch.
	MaxBatchEvents  = 256
	MaxBatchConsume = 256
	MaxBatchMail    = 64
	// MaxEventBlobs bounds the blobs that one event names.
	MaxEventBlobs = 256
	// MaxBlobBytes bounds a blob.
	MaxBlobBytes = 15 << 20
	// MaxMailBytes bounds the payload of a message.
	MaxMailBytes = 64 << 10
	// MaxMail bounds a mailbox, counting what is not consumed. The last ControlMail places are kept for messages that are no input, so that
	// a mailbox full of inputs still takes the cancel.
	MaxMail     = 1024
	ControlMail = 128
	// MaxIDBytes bounds ids of owners, batches, events, messages, runs, turns and tasks.
	MaxIDBytes = 256
	// MaxTypeBytes bounds event types and kinds of messages.
	MaxTypeBytes = 128
	// MaxTitleBytes bounds a title.
	MaxTitleBytes = 512
	// MaxReasonBytes bounds the reason of a redaction.
	MaxReasonBytes = 512
	// MaxAddressBytes bounds an owner's address.
	MaxAddressBytes = 512
	// MaxSeq bounds a journal.
	MaxSeq = 1<<32 - 1
	// MaxForkDepth bounds forks of forks, for reading walks through them.
	MaxForkDepth = 64

	// MaxClaims bounds one ClaimExpired.
	MaxClaims = 64
	// MaxClaimWait bounds its wait.
	MaxClaimWait = time.Minute
	// CommitMail bounds the mail in the answer of a commit.
	CommitMail = 64
	// MaxListMail bounds one ListMail.
	MaxListMail = 256
	// PageEvents and PageBytes bound one page of Read; PageBytes also mail in answers.
	PageEvents = 256
	PageBytes  = 1 << 20
	// MaxList and MaxChanges bound one page of the catalog.
	MaxList    = 500
	MaxChanges = 1000
	// MaxRedact bounds one Redact.
	MaxRedact = 1000
)
