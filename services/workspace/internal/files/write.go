package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// MaxEditBytes bounds a file that can be edited.
	MaxEditBytes = 64 << 20

	defaultMode = 0o644
)

// Mode is the condition of a write.
type Mode uint8

const (
	// Overwrite creates or replaces.
	Overwrite Mode = iota
	// Create writes only where nothing is seen.
	Create
	// IfRevision writes only while the revision seen is the expected one.
	IfRevision
)

// Call is what every change brings along.
type Call struct {
	// Effect by which the change happens once.
	Effect Effect
	// Author to be recorded.
	Author string
}

// Write is one file to be written.
type Write struct {
	Path     fsops.Path
	Mode     Mode
	Revision string // with IfRevision
	FileMode uint32 // 0: that of the file replaced, else 0644
}

// Written is the outcome of a write.
type Written struct {
	Entry   Entry
	Created bool
	Cursor  string
}

// Write puts staged content into place. Errors: PATH_EXISTS, REVISION_CONFLICT, IS_DIRECTORY, NOT_A_DIRECTORY, QUOTA_EXCEEDED.
func (v *View) Write(ctx context.Context, call Call, w Write, content Staged) (Written, error) {
	defer content.Discard()
	return update(ctx, v, call, func(out *Written, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Written, error) {
		return v.write(ctx, tx, call, w, content)
	})
}

// write is Write within an update.
func (v *View) write(ctx context.Context, tx Tx, call Call, w Write, content Staged) (Written, error) {
	if limit := v.limits.FileBytes; limit > 0 && content.Size() > limit {
		return Written{}, fsops.ErrTooLarge(limit, content.Size())
	}
	at, err := v.resolve(ctx, tx, w.Path)
	if err != nil {
		return Written{}, err
	}
	if err := at.mayWrite(w); err != nil {
		return Written{}, err
	}
	mode := w.FileMode
	if mode == 0 {
		mode = at.fileMode()
	}
	node, err := v.put(ctx, tx, File{Path: at.path, Content: content, Mode: mode, Author: call.Author})
	if err != nil {
		return Written{}, err
	}
	return Written{Entry: at.written(node), Created: !at.entry.Exists()}, nil
}

// mayWrite checks the condition of a write against what is seen.
func (at place) mayWrite(w Write) error {
	switch {
	case !at.blocked.IsRoot():
		return fsops.ErrNotADirectory(w.Path.String(), at.blocked.String())
	case w.Mode == Create && at.entry.Exists():
		return fsops.ErrExists(w.Path.String(), at.entry.Revision)
	case at.entry.Kind == KindDir:
		return fsops.ErrIsDirectory(w.Path.String())
	case w.Mode == IfRevision:
		return at.mustHave(w.Revision)
	}
	return nil
}

// mustHave checks an expected revision of a file.
func (at place) mustHave(revision string) error {
	if at.entry.Revision != revision || revision == "" {
		return fsops.ErrRevisionConflict(at.path.String(), at.entry.Revision, at.entry.Author, at.entry.ModTime)
	}
	return nil
}

func (at place) fileMode() uint32 {
	if at.entry.Kind == KindFile {
		return at.entry.Node.Mode
	}
	return defaultMode
}

// put writes a file of the bucket, logs the change and checks the quotas. A whiteout on the path may stay: the bucket's own file is above it.
func (v *View) put(ctx context.Context, tx Tx, f File) (Node, error) {
	node, err := tx.Put(ctx, f)
	if err != nil {
		return Node{}, err
	}
	if err := tx.Log(ctx, Change{Kind: ChangeWritten, Path: node.Path, Revision: node.Revision, Author: f.Author}); err != nil {
		return Node{}, err
	}
	return node, v.checkQuota(ctx, tx)
}

func (v *View) checkQuota(ctx context.Context, tx Tx) error {
	if v.limits.Bytes <= 0 && v.limits.Files <= 0 {
		return nil
	}
	used, err := tx.Usage(ctx)
	if err != nil {
		return err
	}
	return v.limits.allow(used)
}

// allow checks what a bucket holds against its quotas.
func (l Limits) allow(used Usage) error {
	switch {
	case l.Bytes > 0 && used.Bytes > l.Bytes:
		return fsops.ErrQuota("bytes", l.Bytes, used.Bytes)
	case l.Files > 0 && used.Files > l.Files:
		return fsops.ErrQuota("files", l.Files, used.Files)
	}
	return nil
}

// written is a file of the bucket after a change at a place.
func (at place) written(node Node) Entry {
	return Entry{Node: node, Layer: LayerBucket, Shadows: at.lowerHas}
}

// mustBeFile checks that a file is seen, at an expected revision if one is given.
func (at place) mustBeFile(asked fsops.Path, revision string) error {
	if err := at.mustExist(asked); err != nil {
		return err
	}
	if at.entry.Kind == KindDir {
		return fsops.ErrIsDirectory(asked.String())
	}
	if revision != "" {
		return at.mustHave(revision)
	}
	return nil
}
