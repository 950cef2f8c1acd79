package memory

import (
	"context"
	"time"
)

// MaxFileBytes bounds what is read of one memory file; the rest of a larger one is not searched.
const MaxFileBytes = 16 << 20

// File describes a file of the bucket.
type File struct {
	Path     string
	Size     int64
	Revision string
	ModTime  time.Time
}

// Files are the files of the bucket that the identity in the context selects. Paths are relative to the bucket's root.
//
// The effect of a change is an id under which the change happens once, whatever is repeated; empty for none.
type Files interface {
	// List gives every file below a directory, ordered by path; none when there is no such directory.
	List(ctx context.Context, dir string) ([]File, error)
	// Stat describes a file. ErrNoFile.
	Stat(ctx context.Context, path string) (File, error)
	// Read gives a file of one revision, at most MaxFileBytes of it. ErrNoFile.
	Read(ctx context.Context, path string) ([]byte, File, error)
	// Append adds to a file, making it if need be; concurrent appends are all kept, each in one piece. ErrEffectMismatch.
	Append(ctx context.Context, effect, path string, data []byte) (cursor string, err error)
	// Write makes the changes in order, all or none where the store can. When it cannot, a condition that fails ends it before the changes that follow. ErrChanged.
	Write(ctx context.Context, effect string, changes []Change) (cursor string, err error)
	// Delete removes a file; missing is fine.
	Delete(ctx context.Context, path string) error
	// KeepsHistory says whether earlier revisions of files can be read.
	KeepsHistory(ctx context.Context) (bool, error)
}

// Change is a file to be written.
type Change struct {
	Path    string
	Content []byte
	// Condition guards the write.
	Condition Condition
	// Revision is the expected one, with IfRevision.
	Revision string
}

// Condition guards a write.
type Condition uint8

// The conditions.
const (
	Always     Condition = iota
	IfMissing            // only if there is no such file
	IfRevision           // only if the revision is the expected one
)

// guard gives the condition that a file is still as it was read: at that revision, or missing.
func guard(f File) (Condition, string) {
	if f.Revision == "" {
		return IfMissing, ""
	}
	return IfRevision, f.Revision
}

// Threads are the threads of the identity's tenant, agent and user.
type Threads interface {
	// Changes lists threads that changed after a cursor; empty: from the start.
	Changes(ctx context.Context, cursor string) (ThreadChanges, error)
	// Messages gives the messages of a thread after a sequence and up to another (0: the head), in order, and the sequence of the last event that was read.
	Messages(ctx context.Context, session string, after, through int64) ([]Message, int64, error)
	// Redact removes the content of events, and says of how many.
	Redact(ctx context.Context, session string, seqs []int64, reason string) (int, error)
}

// ThreadChanges is one page of changes.
type ThreadChanges struct {
	Heads   []ThreadHead
	Deleted []string
	Cursor  string
	More    bool
}

// ThreadHead is a thread and its last sequence.
type ThreadHead struct {
	Session string
	Seq     int64
}

// Message is what somebody said in a thread.
type Message struct {
	// ID is unique within the thread.
	ID   string
	Seq  int64
	Time time.Time
	// Speaker is "user", "assistant" or "tool".
	Speaker string
	Text    string
	// Synthetic says that Gantry made it up: recalled memory, summaries, runtime state. Such text is neither searched nor extracted.
	Synthetic bool
	// Source names the tool that gave the text.
	Source string
}
