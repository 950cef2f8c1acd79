package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Delete is what to delete.
type Delete struct {
	Path         fsops.Path
	Recursive    bool
	AllowMissing bool
	Revision     string // of a file; "" expects none
}

// Deleted is the outcome.
type Deleted struct {
	Files  int64 // removed or hidden
	Cursor string
}

// Delete removes a path from what is seen: the bucket's files go, and a whiteout hides what lower layers have. The root can't be deleted.
func (v *View) Delete(ctx context.Context, call Call, d Delete) (Deleted, error) {
	return inSteps(ctx, v, call, func() (Deleted, error) {
		return update(ctx, v, call, func(out *Deleted, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Deleted, error) {
			return v.delete(ctx, tx, call, d)
		})
	}, func() (Deleted, error) { return v.deleteInSteps(ctx, call, d) })
}

// delete is Delete within an update.
func (v *View) delete(ctx context.Context, tx Tx, call Call, d Delete) (Deleted, error) {
	at, gone, err := v.deletable(ctx, tx, d)
	if err != nil || !at.entry.Exists() {
		return Deleted{}, err
	}
	var files int64
	for _, e := range gone {
		if e.Layer == LayerBucket {
			if err := tx.Remove(ctx, e.Path); err != nil {
				return Deleted{}, err
			}
		}
		files++
		if err := tx.Log(ctx, Change{Kind: ChangeDeleted, Path: e.Path, Author: call.Author}); err != nil {
			return Deleted{}, err
		}
	}
	return Deleted{Files: files}, v.hideLower(ctx, tx, at)
}

// deletable resolves what is to be deleted, with its files, and checks that it may be. The place is empty where nothing is and nothing need be.
func (v *View) deletable(ctx context.Context, tx Tx, d Delete) (place, []Entry, error) {
	if d.Path.IsRoot() {
		return place{}, nil, fsops.ErrIsDirectory("")
	}
	at, err := v.resolve(ctx, tx, d.Path)
	if err != nil {
		return place{}, nil, err
	}
	if !at.entry.Exists() && d.AllowMissing {
		return at, nil, nil
	}
	if err := at.mustExist(d.Path); err != nil {
		return place{}, nil, err
	}
	if d.Revision != "" {
		if err := at.mustHave(d.Revision); err != nil {
			return place{}, nil, err
		}
	}
	gone, err := v.contents(ctx, tx, at, d.Recursive)
	return at, gone, err
}

// contents returns the files that deleting or moving a place concerns: the file itself, or all below a directory.
func (v *View) contents(ctx context.Context, tx Tx, at place, recursive bool) ([]Entry, error) {
	if at.entry.Kind == KindFile {
		return []Entry{at.entry}, nil
	}
	var all []Entry
	m := v.merge(tx, at, true, "")
	for {
		e, ok, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if e.Kind == KindFile {
			all = append(all, e)
		}
	}
	if len(all) > 0 && !recursive {
		return nil, fsops.ErrDirectoryNotEmpty(at.path.String(), len(all))
	}
	return all, nil
}

// hideLower puts a whiteout on a place if lower layers have something there, and drops those below it, which it makes needless.
func (v *View) hideLower(ctx context.Context, tx Tx, at place) error {
	for _, key := range at.whites {
		if p := fsops.PathOf(key); p.Under(at.path) {
			if err := tx.ClearWhiteout(ctx, p); err != nil {
				return err
			}
		}
	}
	if !at.lowerHas {
		return nil
	}
	return tx.SetWhiteout(ctx, at.path)
}
