package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FileChange is one change of a set: exactly one of its fields is set.
type FileChange struct {
	// Write is a file to be written, with Content.
	Write   *Write
	Content []byte
	Edit    *EditFile
	Delete  *Delete
	Move    *Move
}

// Applied is the outcome of a change set.
type Applied struct {
	// Entries are the files written, edited or moved, in the order of the changes; deletions are left out.
	Entries []Entry
	Cursor  string
}

// Apply makes several changes, all or none, in their order: each sees those before it, and so do its quotas. The effect is that of the whole set. An error is that of the change
// which failed, with its index as the metadata "change".
func (v *View) Apply(ctx context.Context, call Call, changes []FileChange) (Applied, error) {
	staged := v.newCopies()
	defer staged.discard()
	return update(ctx, v, call, func(out *Applied, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Applied, error) {
		var out Applied
		for i, c := range changes {
			e, err := v.change(ctx, tx, call, staged, c)
			if err != nil {
				return Applied{}, OfChange(i, err)
			}
			if c.Delete == nil {
				out.Entries = append(out.Entries, e)
			}
		}
		return out, nil
	})
}

// change makes one change of a set.
func (v *View) change(ctx context.Context, tx Tx, call Call, staged *copies, c FileChange) (Entry, error) {
	switch {
	case c.Write != nil:
		content, err := staged.bytes(ctx, c.Content)
		if err != nil {
			return Entry{}, err
		}
		out, err := v.write(ctx, tx, call, *c.Write, content)
		return out.Entry, err
	case c.Edit != nil:
		out, err := v.edit(ctx, tx, call, *c.Edit)
		return out.Entry, err
	case c.Delete != nil:
		_, err := v.delete(ctx, tx, call, *c.Delete)
		return Entry{}, err
	case c.Move != nil:
		out, err := v.move(ctx, tx, call, staged, *c.Move)
		return out.Entry, err
	}
	return Entry{}, errors.New("a change without anything to do")
}

// bytes stages content that is in memory.
func (c *copies) bytes(ctx context.Context, content []byte) (Staged, error) {
	staged, err := c.view.store.Stage(ctx, bytes.NewReader(content), 0)
	if err == nil {
		c.all = append(c.all, staged)
	}
	return staged, err
}

// OfChange says which change of a set an error is of.
func OfChange(index int, err error) error {
	if typed, ok := errors.AsType[*errdefs.Error](err); ok {
		return typed.With("change", strconv.Itoa(index))
	}
	return fmt.Errorf("change %d: %w", index, err)
}
