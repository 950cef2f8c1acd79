package files

import (
	"bytes"
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// EditFile is one file to be edited.
type EditFile struct {
	Path     fsops.Path
	Edits    []fsops.Replacement
	Revision string // "" expects none
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
		return v.edit(ctx, tx, call, EditFile{Path: p, Edits: edits, Revision: revision})
	})
}

// edit is Edit within an update.
func (v *View) edit(ctx context.Context, tx Tx, call Call, e EditFile) (EditOutcome, error) {
	at, err := v.resolve(ctx, tx, e.Path)
	if err != nil {
		return EditOutcome{}, err
	}
	if err := at.mustBeFile(e.Path, e.Revision); err != nil {
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
	edited, err := fsops.Edit(old, e.Edits)
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
}
