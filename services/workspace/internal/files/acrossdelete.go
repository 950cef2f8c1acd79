package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// deletePlan is what a deletion in steps found at first.
type deletePlan struct {
	Path fsops.Path
	Kind Kind
}

// deleteInSteps deletes store by store. What is below a directory goes with a whiteout of its own where lower layers have it too, so that nothing shines through between two
// steps; the directory's whiteout comes last.
func (v *View) deleteInSteps(ctx context.Context, call Call, d Delete) (Deleted, error) {
	plan, err := doStep(ctx, v, call.step("plan"), func(ctx context.Context, tx Tx) (deletePlan, error) {
		at, _, err := v.deletable(ctx, tx, d)
		return deletePlan{Path: at.path, Kind: at.entry.Kind}, err
	})
	if err != nil {
		return Deleted{}, err
	}
	parts := v.store.(divided)
	var out Deleted
	for _, owner := range parts.Owners() {
		part, err := doStep(ctx, v, call.step("delete", owner), func(ctx context.Context, tx Tx) (Deleted, error) {
			return v.deletePart(ctx, tx, call, plan.Path, func(p fsops.Path) bool { return parts.Owner(v.space, p) == owner })
		})
		if err != nil {
			return Deleted{}, err
		}
		out.Files += part.Files
	}
	return update(ctx, v, call, func(out *Deleted, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Deleted, error) {
		return out, v.hideAfter(ctx, tx, plan.Path)
	})
}

// deletePart deletes the files at or below a path for which mine is true.
func (v *View) deletePart(ctx context.Context, tx Tx, call Call, p fsops.Path, mine func(fsops.Path) bool) (Deleted, error) {
	at, err := v.resolve(ctx, tx, p)
	if err != nil || !at.entry.Exists() {
		return Deleted{}, err
	}
	all, err := v.contents(ctx, tx, at, true)
	if err != nil {
		return Deleted{}, err
	}
	var out Deleted
	for _, e := range all {
		if !mine(e.Path) {
			continue
		}
		if err := v.deleteFile(ctx, tx, call, e); err != nil {
			return Deleted{}, err
		}
		out.Files++
	}
	return out, nil
}

// deleteFile deletes one file that is seen, and only it.
func (v *View) deleteFile(ctx context.Context, tx Tx, call Call, e Entry) error {
	if e.Layer == LayerBucket {
		if err := tx.Remove(ctx, e.Path); err != nil {
			return err
		}
	}
	if e.Layer != LayerBucket || e.Shadows {
		if err := tx.SetWhiteout(ctx, e.Path); err != nil {
			return err
		}
	}
	return tx.Log(ctx, Change{Kind: ChangeDeleted, Path: e.Path, Author: call.Author})
}

// hideAfter puts a whiteout on a path whose files are all gone or hidden, if lower layers have something there, and drops those below it that are in the same store.
func (v *View) hideAfter(ctx context.Context, tx Tx, p fsops.Path) error {
	at, err := v.resolve(ctx, tx, p)
	if err != nil || !at.lowerHas {
		return err
	}
	parts := v.store.(divided)
	for _, key := range at.whites {
		if q := fsops.PathOf(key); q.Under(at.path) && parts.Owner(v.space, q) == parts.Owner(v.space, at.path) {
			if err := tx.ClearWhiteout(ctx, q); err != nil {
				return err
			}
		}
	}
	return tx.SetWhiteout(ctx, at.path)
}
