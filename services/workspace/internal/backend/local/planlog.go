package local

import (
	"context"
	"slices"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// SetWhiteout implements [files.Tx].
func (p *plan) SetWhiteout(_ context.Context, path fsops.Path) error {
	if i, found := slices.BinarySearch(p.whites, path.Key()); !found {
		p.whites = slices.Insert(p.whites, i, path.Key())
		p.steps = append(p.steps, step{Op: opSetWhiteout, Path: path})
	}
	return nil
}

// ClearWhiteout implements [files.Tx].
func (p *plan) ClearWhiteout(_ context.Context, path fsops.Path) error {
	if i, found := slices.BinarySearch(p.whites, path.Key()); found {
		p.whites = slices.Delete(p.whites, i, i+1)
		p.steps = append(p.steps, step{Op: opClearWhiteout, Path: path})
	}
	return nil
}

// Whiteouts implements [files.Own].
func (p *plan) Whiteouts(context.Context) ([]string, error) { return slices.Clone(p.whites), nil }

// Log implements [files.Tx].
func (p *plan) Log(_ context.Context, c files.Change) error {
	p.changes = append(p.changes, c)
	return nil
}

// Usage implements [files.Tx].
func (p *plan) Usage(context.Context) (files.Usage, error) { return p.usage, nil }

// fits refuses names that the index can't hold.
func fits(p fsops.Path) error {
	if _, changed := fsops.Text(p.String()); changed {
		return fsops.ErrNameUnsupported(p.String(), "this store holds names in UTF-8 only")
	}
	return nil
}
