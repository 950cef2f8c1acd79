package sandbox

import (
	"context"
	"io"
	"time"
)

// SnapshotStore keeps the snapshots of all buckets. Buckets share nothing in it, contents included: whether another bucket has the same bytes cannot be
// told from time or space. All methods are safe for concurrent use, also from several processes.
type SnapshotStore interface {
	// PutBlob stores content under its SHA-256 and returns when it is durable. Storing the same content again is cheap and no error. When content
	// fails, nothing is kept.
	PutBlob(ctx context.Context, bucket string, content io.Reader) (Blob, error)
	// OpenBlob reads a blob. Reading to the end checks the hash: damage is SNAPSHOT_DAMAGED (class data loss) in place of io.EOF.
	OpenBlob(ctx context.Context, bucket, sha256 string) (io.ReadCloser, error)
	// PutManifest stores an immutable manifest and returns its id, the SHA-256 of its stored form.
	PutManifest(ctx context.Context, m Manifest) (id string, err error)
	// Manifest reads a manifest. SNAPSHOT_NOT_FOUND, SNAPSHOT_DAMAGED.
	Manifest(ctx context.Context, bucket, id string) (Manifest, error)
	// Manifests lists those of a bucket, newest first.
	Manifests(ctx context.Context, bucket string) ([]Manifest, error)
	// Delete removes a manifest and the blobs that no other manifest of the bucket names. Repeating it is no error. It never checks the head.
	Delete(ctx context.Context, bucket, id string) error
	// Head reads the head of a bucket; the zero head when there has never been one.
	Head(ctx context.Context, bucket string) (Head, error)
	// SetHead replaces the head if it is still old: compare and set. FENCED (class aborted) if it is not. It is durable when it returns.
	SetHead(ctx context.Context, bucket string, old, head Head) error
}

// Blob is stored content.
type Blob struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Head is the one thing about a bucket that changes.
type Head struct {
	// Version counts changes; 0 means that there has never been a head. [SnapshotStore.SetHead] compares it and the caller increments it.
	Version int64 `json:"version"`
	// Generation is that of the newest instance that was begun.
	Generation int64 `json:"generation"`
	// Token is an upper bound of the fencing tokens that were given out.
	Token int64 `json:"token"`
	// Snapshot is the id of the snapshot that the next instance starts from. Empty: it starts blank.
	Snapshot string `json:"snapshot,omitempty"`
	// Lost are effects whose outcome is void or unknown, since their generation is gone. At most [maxLost], oldest dropped.
	Lost []Record `json:"lost,omitempty"`
	// Unsaved is set while the newest generation has changes that no snapshot has. It is set before the first of them is made.
	Unsaved *Unsaved `json:"unsaved,omitempty"`
	// Loss is the newest loss of unsaved changes. nil: there was none, or it was told and a snapshot was taken since.
	Loss *Loss `json:"loss,omitempty"`
}

// Manifest describes one snapshot.
type Manifest struct {
	// ID is set by the store and is not part of the stored form.
	ID         string    `json:"-"`
	Bucket     string    `json:"bucket"`
	Parent     string    `json:"parent,omitempty"`
	Generation int64     `json:"generation"`
	Token      int64     `json:"token"`
	Created    time.Time `json:"created"`
	Label      string    `json:"label,omitempty"`
	Pinned     bool      `json:"pinned,omitempty"`
	// Automatic: it was taken by the service itself.
	Automatic bool `json:"automatic,omitempty"`
	// Archive is a zstd-compressed tar of the entries.
	Archive Blob `json:"archive"`
	// Entries are all files, directories and links, in the order of the archive.
	Entries []ManifestEntry `json:"entries"`
	// Skipped names what could not be archived, with the reason, at most 20.
	Skipped []string `json:"skipped,omitempty"`
	// Records are the finished effects that the snapshot covers.
	Records []Record `json:"records,omitempty"`
}

// ManifestEntry is one path of a snapshot. Paths are bytes: a name need not be text.
type ManifestEntry struct {
	Path   []byte `json:"path"`
	Kind   string `json:"kind"` // file, dir or link
	Mode   uint32 `json:"mode"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// ContentBytes counts the bytes of all files.
func (m Manifest) ContentBytes() (n int64) {
	for _, e := range m.Entries {
		n += e.Size
	}
	return n
}
