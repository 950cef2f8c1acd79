package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Replaced is the outcome of a replacement.
type Replaced struct {
	Created bool  // the space held nothing before
	Removed int64 // files that are gone
	State   string
	Cursor  string
}

// Replace makes a space hold exactly the given files, all at once. may is asked first, with what the space holds. Files whose content and mode stay the same keep their revision.
// The state of the outcome is what describe says about the files of the space afterwards.
func (v *View) Replace(ctx context.Context, call Call, set []File, may func(existing []Entry) error, describe func([]Entry) string) (Replaced, error) {
	return update(ctx, v, call, func(out *Replaced, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Replaced, error) {
		root, err := v.resolve(ctx, tx, fsops.Path{})
		if err != nil {
			return Replaced{}, err
		}
		existing, err := v.contents(ctx, tx, root, true)
		if err != nil {
			return Replaced{}, err
		}
		if err := may(existing); err != nil {
			return Replaced{}, err
		}
		out := Replaced{Created: len(existing) == 0}
		wanted := make(map[string]File, len(set))
		for _, f := range set {
			wanted[f.Path.Key()] = f
		}
		for _, e := range existing {
			if f, ok := wanted[e.Path.Key()]; ok {
				if f.Content.SHA256() == e.SHA256 && f.Mode == e.Mode {
					delete(wanted, e.Path.Key())
				}
				continue
			}
			if err := tx.Remove(ctx, e.Path); err != nil {
				return Replaced{}, err
			}
			if err := tx.Log(ctx, Change{Kind: ChangeDeleted, Path: e.Path, Author: call.Author}); err != nil {
				return Replaced{}, err
			}
			out.Removed++
		}
		for _, f := range set {
			if _, ok := wanted[f.Path.Key()]; !ok {
				continue
			}
			at, err := v.resolve(ctx, tx, f.Path)
			if err != nil {
				return Replaced{}, err
			}
			if err := at.mayWrite(Write{Path: f.Path}); err != nil {
				return Replaced{}, err
			}
			f.Path, f.Author = at.path, call.Author
			if _, err := v.put(ctx, tx, f); err != nil {
				return Replaced{}, err
			}
		}
		if root, err = v.resolve(ctx, tx, fsops.Path{}); err != nil {
			return Replaced{}, err
		}
		after, err := v.contents(ctx, tx, root, true)
		if err != nil {
			return Replaced{}, err
		}
		out.State = describe(after)
		return out, nil
	})
}
