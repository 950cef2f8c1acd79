package manifest

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Position is a place in the log of a space: after the entry of that number. The zero position is before the first entry.
type Position struct {
	// Number of the entry, from 1.
	Number int64
	// Nonce is random for each try to create an entry. It tells one log from another that has an entry of the same number.
	Nonce uint64
}

// Entry is an entry as it is stored.
type Entry struct {
	Number int64
	Data   []byte
}

// Chunk is a piece of content. Its name is made of lower-case letters, digits and ".", and is never used for other content.
type Chunk struct {
	Name string
	Data []byte
}

// Mark is a checkpoint that exists.
type Mark struct {
	Number int64
	// Time when it was written, by the clock of the server where there is one.
	Time time.Time
}

var (
	// ErrTaken says that an entry has the number already, or that the log does not end where the writer thinks.
	ErrTaken = errors.New("the entry exists")
	// ErrLost says that the log does not go on from a position: load the space anew.
	ErrLost = errors.New("the position is not in the log")
)

// Driver is what a backend gives: objects, of which entries are created at most once.
//
// Spaces are any text; a driver keeps them apart whatever they hold, or refuses one with NAME_UNSUPPORTED. Writes are durable when they return, as far as the server promises it.
// Errors are typed (package errdefs), without the driver's text in the public message; those of a write that the server refused, so that it certainly has not happened, are
// of class FAILED_PRECONDITION or INVALID_ARGUMENT. Each call to the server ends within a time limit. Methods may be called concurrently.
type Driver interface {
	// Capabilities of the backend.
	Capabilities() files.Capabilities
	// Trust is for how long an entry's absence proves that a position once seen is still the newest one; 0 for ever. Pruning keeps entries several times as long.
	Trust() time.Duration
	// Create makes the entry at the position at, which follows the position after. ErrTaken when there is one, also when this very call made it and was repeated below.
	// Before it makes the first entry of a space, it adds the space to what Spaces lists.
	Create(ctx context.Context, space files.Space, after, at Position, data []byte) error
	// After returns the entries after a position, in order and without gaps, at most limit; none when it is the newest. ErrLost when the log does not go on from there.
	After(ctx context.Context, space files.Space, at Position, limit int) ([]Entry, error)
	// Entries returns the data of the entries first to last; nil where there is none.
	Entries(ctx context.Context, space files.Space, first, last int64) ([][]byte, error)
	// Checkpoints returns the checkpoints of a space in order.
	Checkpoints(ctx context.Context, space files.Space) ([]Mark, error)
	// Checkpoint returns a checkpoint; nil when there is none.
	Checkpoint(ctx context.Context, space files.Space, number int64) ([]byte, error)
	// PutCheckpoint writes a checkpoint.
	PutCheckpoint(ctx context.Context, space files.Space, number int64, data []byte) error
	// Prune removes the entries first to last and the checkpoints before keep. What is gone already is no error.
	Prune(ctx context.Context, space files.Space, first, last, keep int64) error
	// Erase removes what all entries up to last hold, and the checkpoints before keep, at once: their numbers stay taken, and After gives ErrLost for positions before last.
	Erase(ctx context.Context, space files.Space, last, keep int64) error
	// Put writes chunks.
	Put(ctx context.Context, space files.Space, chunks []Chunk) error
	// Get returns the data of chunks, in the order of the names; nil where there is none.
	Get(ctx context.Context, space files.Space, names []string) ([][]byte, error)
	// Delete removes chunks. What is gone already is no error.
	Delete(ctx context.Context, space files.Space, names []string) error
	// Sweep removes the chunks of the space that were written before a time, by the clock of Mark.Time or a close one, and that doomed says are to go. It also removes chunks
	// that were staged, for any space, more than a day ago. The zero time: whenever they were written.
	Sweep(ctx context.Context, space files.Space, before time.Time, doomed func(name string) bool) error
	// Stage writes a chunk that is of no space yet.
	Stage(ctx context.Context, chunk Chunk) error
	// Adopt makes staged chunks ones of a space, under new names. A staged chunk may be adopted again, by another name.
	Adopt(ctx context.Context, space files.Space, from, to []string) error
	// Unstage removes staged chunks.
	Unstage(ctx context.Context, names []string) error
	// Spaces returns spaces whose names begin with prefix and come after the name after, in order, at most limit, among them every one that has an entry; and whether more follow.
	Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, bool, error)
	// Listen calls changed when a space may have a new entry, until ctx ends. It may miss some. A driver that can't tell returns at once.
	Listen(ctx context.Context, changed func(files.Space))
	// PollEvery is how often somebody who waits for changes looks, in case that Listen has missed one.
	PollEvery() time.Duration
	// Close ends all connections.
	Close() error
}
