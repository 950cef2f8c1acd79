package sandbox

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Tree is the workspace of an instance, seen from outside it. Paths are slash-separated and relative to the workspace; "" and "." are its root.
//
// Nothing inside is trusted: no link, whether its target is absolute or relative, leads out of the workspace (OUTSIDE_ROOT); links within it work;
// a named pipe, socket or device is never opened (NOT_REGULAR) and never blocks the caller. What a command could not read or write,
// a Tree cannot either. Errors have the reasons of gantry.filesystem.v1.
type Tree interface {
	// Stat describes a path, following links within the workspace.
	Stat(ctx context.Context, path string) (Entry, error)
	// Lstat describes a path without following a link at its end.
	Lstat(ctx context.Context, path string) (Entry, error)
	// ReadDir lists a directory in byte order of names, at most limit entries after the name `after`. limit <= 0: all.
	ReadDir(ctx context.Context, path, after string, limit int) ([]Entry, error)
	// Open opens a regular file for reading.
	Open(ctx context.Context, path string) (File, error)
	// Write replaces or creates a file with everything that content holds, atomically: readers see the old or the new bytes. Missing parents
	// are created. It fails with TOO_LARGE or QUOTA_EXCEEDED and leaves the old file.
	Write(ctx context.Context, path string, content io.Reader, opt WriteOptions) (Entry, error)
	// Append adds to the end of a file, creating it. Concurrent appends lose nothing. With newline, a line feed is put before content when the file is
	// not empty and does not end with one; offset says where content begins.
	Append(ctx context.Context, path string, content []byte, newline bool) (e Entry, offset int64, err error)
	// Remove deletes a file, a link or a directory; a directory that is not empty only when recursive is set.
	Remove(ctx context.Context, path string, recursive bool) error
	// Rename moves a path. Without replace an existing target is PATH_EXISTS, also against a concurrent writer.
	Rename(ctx context.Context, from, to string, replace bool) error
	// Mkdir creates a directory and its parents. An existing one is no error.
	Mkdir(ctx context.Context, path string) error
	// Symlink makes a link with the target as it is; nothing checks where it leads, since following it does.
	Symlink(ctx context.Context, target, path string) error
	// SetMode sets permission bits and, unless it is zero, the modification time of a file or directory.
	SetMode(ctx context.Context, path string, mode fs.FileMode, modTime time.Time) error
	// Usage counts bytes and entries, and says the limits. 0: not limited.
	Usage(ctx context.Context) (Usage, error)
	io.Closer
}

// Entry is one path of a workspace.
type Entry struct {
	// Path is relative to the workspace, with the bytes that the name has.
	Path string
	// Kind is the type alone: 0 for a regular file, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket, fs.ModeDevice.
	Kind fs.FileMode
	// Mode is the permission bits.
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
	// Revision changes whenever the content may have changed.
	Revision string
	// Link is the target of a symbolic link, as it is stored.
	Link string
	// ReadOnly is set for projected paths, which commands cannot change.
	ReadOnly bool
}

// File is an open regular file.
type File interface {
	io.ReadCloser
	io.ReaderAt
	// Stat describes the open file, not what its path names by now.
	Stat() (Entry, error)
}

// WriteOptions say when and how a file is written.
type WriteOptions struct {
	// CreateOnly fails with PATH_EXISTS when there is something.
	CreateOnly bool
	// IfRevision fails with REVISION_CONFLICT unless the file has this revision.
	IfRevision string
	// Mode is the permission bits. 0: those of the file that is replaced, or 0644.
	Mode fs.FileMode
	// MaxBytes bounds the content. 0: the limit of the workspace alone.
	MaxBytes int64
}

// Usage is what a workspace holds.
type Usage struct {
	Bytes, Entries           int64
	LimitBytes, LimitEntries int64
	// LimitFileBytes bounds one file.
	LimitFileBytes int64
}
