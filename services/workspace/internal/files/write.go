package files

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"

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
	if limit := v.limits.FileBytes; limit > 0 && content.Size() > limit {
		return Written{}, fsops.ErrTooLarge(limit, content.Size())
	}
	return update(ctx, v, call, func(out *Written, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Written, error) {
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
	})
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
	switch {
	case err != nil:
		return err
	case v.limits.Bytes > 0 && used.Bytes > v.limits.Bytes:
		return fsops.ErrQuota("bytes", v.limits.Bytes, used.Bytes)
	case v.limits.Files > 0 && used.Files > v.limits.Files:
		return fsops.ErrQuota("files", v.limits.Files, used.Files)
	}
	return nil
}

// written is a file of the bucket after a change at a place.
func (at place) written(node Node) Entry {
	return Entry{Node: node, Layer: LayerBucket, Shadows: at.lowerHas}
}

// Appended is the outcome of an append.
type Appended struct {
	Entry  Entry
	Offset int64 // where the content begins
	Cursor string
}

// Append adds data to the end of a file, making it if need be. With newline, a file that does not end with a line feed gets one first. A file of a lower layer is copied up.
func (v *View) Append(ctx context.Context, call Call, p fsops.Path, data []byte, newline bool) (Appended, error) {
	return update(ctx, v, call, func(out *Appended, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Appended, error) {
		at, err := v.resolve(ctx, tx, p)
		if err != nil {
			return Appended{}, err
		}
		if err := at.mayWrite(Write{Path: p}); err != nil {
			return Appended{}, err
		}
		add, offset := data, at.entry.Size
		if newline && at.entry.Size > 0 {
			open, err := v.endsOpen(ctx, at)
			if err != nil {
				return Appended{}, err
			}
			if open {
				add, offset = append([]byte{'\n'}, data...), offset+1
			}
		}
		if limit, size := v.limits.FileBytes, at.entry.Size+int64(len(add)); limit > 0 && size > limit {
			return Appended{}, fsops.ErrTooLarge(limit, size)
		}
		node, err := v.appendTo(ctx, tx, call, at, add)
		if err != nil {
			return Appended{}, err
		}
		return Appended{Entry: at.written(node), Offset: offset}, nil
	})
}

// endsOpen says whether the last byte of a file is not a line feed.
func (v *View) endsOpen(ctx context.Context, at place) (bool, error) {
	content, err := at.tree.Open(ctx, at.entry.Node)
	if err != nil {
		return false, err
	}
	defer content.Close()
	var last [1]byte
	if _, err := content.ReadAt(last[:], content.Size()-1); err != nil {
		return false, fmt.Errorf("read the last byte: %w", err)
	}
	return last[0] != '\n', nil
}

func (v *View) appendTo(ctx context.Context, tx Tx, call Call, at place, data []byte) (Node, error) {
	if at.own.Kind == KindFile {
		staged, err := v.store.Stage(ctx, bytes.NewReader(data), 0)
		if err != nil {
			return Node{}, err
		}
		defer staged.Discard()
		node, err := tx.Append(ctx, File{Path: at.own.Path, Content: staged, Author: call.Author})
		if err != nil {
			return Node{}, err
		}
		if err := tx.Log(ctx, Change{Kind: ChangeWritten, Path: node.Path, Revision: node.Revision, Author: call.Author}); err != nil {
			return Node{}, err
		}
		return node, v.checkQuota(ctx, tx)
	}
	if at.entry.Exists() {
		content, err := at.tree.Open(ctx, at.entry.Node)
		if err != nil {
			return Node{}, err
		}
		defer content.Close()
		lower, err := readAll(ctx, content, MaxEditBytes)
		if err != nil {
			return Node{}, err
		}
		data = append(lower, data...)
	}
	staged, err := v.store.Stage(ctx, bytes.NewReader(data), 0)
	if err != nil {
		return Node{}, err
	}
	defer staged.Discard()
	return v.put(ctx, tx, File{Path: at.path, Content: staged, Mode: at.fileMode(), Author: call.Author})
}

// EditOutcome is the outcome of an edit.
type EditOutcome struct {
	Entry  Entry
	Counts []int
	Diff   string
	Cursor string
}

// Edit applies replacements to a file, all or none. A file of a lower layer is copied up. revision "" expects none.
func (v *View) Edit(ctx context.Context, call Call, p fsops.Path, edits []fsops.Replacement, revision string) (EditOutcome, error) {
	return update(ctx, v, call, func(out *EditOutcome, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (EditOutcome, error) {
		at, err := v.resolve(ctx, tx, p)
		if err != nil {
			return EditOutcome{}, err
		}
		if err := at.mustBeFile(p, revision); err != nil {
			return EditOutcome{}, err
		}
		content, err := at.tree.Open(ctx, at.entry.Node)
		if err != nil {
			return EditOutcome{}, err
		}
		defer content.Close()
		old, err := readAll(ctx, content, MaxEditBytes)
		if err != nil {
			return EditOutcome{}, err
		}
		edited, err := fsops.Edit(old, edits)
		if err != nil {
			return EditOutcome{}, err
		}
		if limit := v.limits.FileBytes; limit > 0 && int64(len(edited.Content)) > limit {
			return EditOutcome{}, fsops.ErrTooLarge(limit, int64(len(edited.Content)))
		}
		staged, err := v.store.Stage(ctx, bytes.NewReader(edited.Content), 0)
		if err != nil {
			return EditOutcome{}, err
		}
		defer staged.Discard()
		node, err := v.put(ctx, tx, File{Path: at.path, Content: staged, Mode: at.entry.Node.Mode, Author: call.Author})
		if err != nil {
			return EditOutcome{}, err
		}
		return EditOutcome{
			Entry: at.written(node), Counts: edited.Counts, Diff: edited.Diff(at.path.String(), fsops.MaxEditDiffBytes),
		}, nil
	})
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

// update runs f in an update of the view's space, keeps its outcome under the effect and hands the cursor to the outcome.
func update[T any](ctx context.Context, v *View, call Call, setCursor func(*T, Cursor), f func(context.Context, Tx) (T, error)) (T, error) {
	var out T
	done, err := v.store.Update(ctx, v.space, call.Effect, func(ctx context.Context, tx Tx) ([]byte, error) {
		var err error
		if out, err = f(ctx, tx); err != nil {
			return nil, err
		}
		if call.Effect.ID == "" {
			return nil, nil
		}
		var record bytes.Buffer
		err = gob.NewEncoder(&record).Encode(out)
		return record.Bytes(), err
	})
	if err != nil {
		var none T
		return none, err
	}
	if done.Repeated {
		var recorded T
		if err := gob.NewDecoder(bytes.NewReader(done.Outcome)).Decode(&recorded); err != nil {
			return out, fmt.Errorf("read the recorded outcome: %w", err)
		}
		out = recorded
	}
	setCursor(&out, done.Cursor)
	return out, nil
}
