package files

import (
	"context"
	"io"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// Tree is read access to one flat layer. Paths are compared by their keys; order is that of the bytes of keys. The root is always a directory.
type Tree interface {
	// Get returns the node at each path, in the order of the paths: the zero node where nothing is. A node has the spelling under which it was written.
	// All nodes are of one moment where the backend can tell.
	Get(ctx context.Context, paths ...fsops.Path) ([]Node, error)
	// Children returns the nodes directly below dir whose keys come after the key after, in order, at most limit. A directory that does not exist has none.
	Children(ctx context.Context, dir fsops.Path, after string, limit int) (Page, error)
	// Below is Children for everything below dir, at any depth.
	Below(ctx context.Context, dir fsops.Path, after string, limit int) (Page, error)
	// Open returns the content of a file node that this tree gave out, at its revision. ErrChanged when that revision is not the current one and not kept.
	Open(ctx context.Context, n Node) (Content, error)
	// Load returns the contents of several small files at once, in the order of the nodes; nil for a file that is gone or has changed meanwhile.
	Load(ctx context.Context, nodes ...Node) ([][]byte, error)
}

// ErrChanged says that a file has changed since it was looked up.
var ErrChanged error = errdefs.New(errdefs.ErrAborted, fsops.Domain, fsops.ReasonRevisionConflict, "the file was changed meanwhile; try again")

// Page is a part of a listing.
type Page struct {
	// Nodes in order.
	Nodes []Node
	// More says that nodes may follow.
	More bool
	// Warnings are the places that could not be read, each with its reason. The rest is complete.
	Warnings []string
}

// Own is a tree that keeps whiteouts and history: the bucket's.
type Own interface {
	Tree
	// Whiteouts returns the keys of all whiteouts of the space, in order.
	Whiteouts(ctx context.Context) ([]string, error)
	// Revisions returns the kept previous revisions of the file at p, newest first by when they were replaced or removed, after the revision after ("": from the newest), at most
	// limit, and whether more follow. TOKEN_INVALID when the revision after is not kept. The current revision is not among them, and the path may hold nothing by now.
	// Each has the path under which it was kept, Replaced and Removed. What an update has written itself and replaced again is no revision. A move leaves the history at
	// the old path, with the revision that was moved away; the path moved to gets the revision of what it replaced.
	//
	// A revision within the policy is kept: pruning may lag, but never runs ahead. It is not part of the usage of the space.
	Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]Node, bool, error)
	// Revision returns one kept previous revision of the file at p, or the current one; the zero node when it is not kept. Open and Load give its content.
	Revision(ctx context.Context, p fsops.Path, revision string) (Node, error)
}

// Store keeps spaces. It is the port that backends implement; package storetest is its suite.
//
// A space comes into being with its first change and needs no creation. Spaces share nothing: no call on one may ever show or change anything of another. What an
// update has acknowledged survives a crash of process and machine. Every method returns promptly when its context ends, with the context's error, and
// after Close every method fails with class FAILED_PRECONDITION or UNAVAILABLE. Methods may be called concurrently.
//
// Errors have the reasons of gantry.filesystem.v1 where one fits. A store that can't be reached is class UNAVAILABLE, one that can't be written now is STORE_READ_ONLY, a name
// that the backend can't hold is NAME_UNSUPPORTED. The text of a driver or of the operating system is never part of the public message.
type Store interface {
	// Capabilities says what the backend has.
	Capabilities() Capabilities
	// Space gives read access to a space. It does no work and never fails.
	Space(space Space) Own
	// Stage takes content in, in constant memory, so that an update can put it into place. TOO_LARGE when it has more than limit bytes (0: no limit). It
	// is not visible anywhere and is removed by Discard, by the update that uses it, or by the store some time after a crash.
	Stage(ctx context.Context, content io.Reader, limit int64) (Staged, error)
	// Update runs f and makes what it did through the transaction visible and durable, all at once; when f fails, nothing happened and its error is returned.
	// Updates of one space happen one after another. f may run several times before the outcome of one run counts, so it must not act but through tx.
	//
	// With an effect id, outcome and hash are recorded with the change. A repeat under the same id with the same hash returns the recorded outcome without running
	// f; with another hash it is EFFECT_MISMATCH. Records are kept for seven days at least. An f that fails is not recorded.
	Update(ctx context.Context, space Space, effect Effect, f func(ctx context.Context, tx Tx) (outcome []byte, err error)) (Updated, error)
	// Head returns the cursor after the last change.
	Head(ctx context.Context, space Space) (Cursor, error)
	// Changes returns the changes after a cursor, in order, at most limit. CURSOR_EXPIRED when some of them are not kept any more, or the space was forgotten.
	Changes(ctx context.Context, space Space, after Cursor, limit int) ([]Change, error)
	// Wait returns when there may be changes after the cursor, also ones made by other replicas, or when ctx ends (with its error). It may return early.
	Wait(ctx context.Context, space Space, after Cursor) error
	// Usage returns what a space holds.
	Usage(ctx context.Context, space Space) (Usage, error)
	// Spaces returns the spaces that hold a file and whose names begin with prefix and come after the name after, in order, at most limit.
	Spaces(ctx context.Context, prefix, after Space, limit int) ([]Space, error)
	// Forget removes everything of a space, its history too, and returns how many files that were.
	Forget(ctx context.Context, space Space) (int64, error)
	// Locate returns the directory on this host that holds the space as plain files, made if need be; false when there is none.
	Locate(space Space) (string, bool, error)
	// Close ends the store. It waits for what is in work.
	Close() error
}

// Capabilities says what a backend has.
type Capabilities struct {
	// Name of the backend, for people.
	Name string
	// PlainFiles: Locate works, and people may edit the files there.
	PlainFiles bool
	// GuardsAllWriters: revisions guard against every writer, not only against updates.
	GuardsAllWriters bool
	// ArbitraryNames: names may hold every byte but NUL and "/".
	ArbitraryNames bool
	// Shared: other processes may use the same store at the same time.
	Shared bool
}

// Tx is what an update may do. Reads see what the update has written so far. It is valid during f only, and for one goroutine.
//
// The caller keeps the space a tree: it never puts a file where a directory is, nor below a file. Directories above a file come and go with it.
type Tx interface {
	Own
	// Put writes a file: its path exactly as spelled, replacing what has the same key. The node has a new revision. ModTime zero: now.
	Put(ctx context.Context, f File) (Node, error)
	// Append adds to the end of the file at f.Path, which exists; the cost does not depend on its size. Of f, only Path, Content and Author count.
	Append(ctx context.Context, f File) (Node, error)
	// Remove removes the file at the path, which exists.
	Remove(ctx context.Context, p fsops.Path) error
	// Rename moves the file at from, which exists, to the path to, replacing a file that is there. The node has a new revision.
	Rename(ctx context.Context, from, to fsops.Path, author string) (Node, error)
	// SetWhiteout and ClearWhiteout add and remove a whiteout. Doing it twice is fine.
	SetWhiteout(ctx context.Context, p fsops.Path) error
	ClearWhiteout(ctx context.Context, p fsops.Path) error
	// Log adds an entry to the change log.
	Log(ctx context.Context, c Change) error
	// Usage is what the space holds, with this update.
	Usage(ctx context.Context) (Usage, error)
}

// File is a file to be written.
type File struct {
	// Path with the spelling to be kept.
	Path fsops.Path
	// Content staged in the same store; the update takes it over.
	Content Staged
	// Mode holds the permission bits.
	Mode uint32
	// Author of the revision.
	Author string
	// ModTime; zero: now.
	ModTime time.Time
}

// Staged is content that waits for an update.
type Staged interface {
	// Size in bytes.
	Size() int64
	// SHA256 in lower-case hex.
	SHA256() string
	// Discard removes the content unless an update has taken it over. Calling it twice, or afterwards, is fine.
	Discard()
}

// Effect names a change that happens once. The zero effect asks for nothing.
type Effect struct {
	// ID as the caller gave it; "" for none.
	ID string
	// Hash of the request, by which a repeat is told from another request.
	Hash string
}

// Updated is the outcome of an update.
type Updated struct {
	// Outcome as f returned it, now or when the effect was recorded.
	Outcome []byte
	// Cursor after the change.
	Cursor Cursor
	// Repeated says that the outcome was recorded earlier.
	Repeated bool
}
