package files

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/fsops"
)

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
