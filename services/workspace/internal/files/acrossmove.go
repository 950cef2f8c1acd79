package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// stepFiles is how many files of a directory are listed together while they are moved one by one.
	stepFiles = 256
	// maxRecopies bounds how often a file is copied because it was changed before its copy was complete.
	maxRecopies = 5
)

// movePlan is what a move in steps found at first.
type movePlan struct {
	From, To fsops.Path
	Kind     Kind
	Revision string // of a file
	Files    int64
}

// moveInSteps moves file by file: within one store by renaming, from one to another by copying, checking the copy, and deleting. At every moment each file is at the old place or
// at the new one, for a while at both.
func (v *View) moveInSteps(ctx context.Context, call Call, mv Move) (Moved, error) {
	plan, err := doStep(ctx, v, call.step("plan"), func(ctx context.Context, tx Tx) (movePlan, error) { return v.planMove(ctx, tx, mv) })
	if err != nil {
		return Moved{}, err
	}
	for after := ""; ; {
		some, err := v.left(ctx, plan, after)
		if err != nil {
			return Moved{}, err
		}
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			if plan.Kind == KindFile && e.Revision != plan.Revision && mv.Revision != "" {
				return Moved{}, fsops.ErrRevisionConflict(e.Path.String(), e.Revision, e.Author, e.ModTime)
			}
			if err := v.moveOne(ctx, call, mv, plan, e); err != nil {
				return Moved{}, err
			}
		}
		after = some[len(some)-1].Path.Key()
	}
	return update(ctx, v, call, func(out *Moved, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Moved, error) {
		return v.endMove(ctx, tx, plan)
	})
}

// planMove decides what is to be moved.
func (v *View) planMove(ctx context.Context, tx Tx, mv Move) (movePlan, error) {
	from, to, target, stays, err := v.movable(ctx, tx, mv)
	if err != nil {
		return movePlan{}, err
	}
	plan := movePlan{From: from.path, To: target, Kind: from.entry.Kind, Revision: from.entry.Revision}
	if stays {
		return plan, nil
	}
	all, err := v.contents(ctx, tx, from, true)
	if err != nil {
		return movePlan{}, err
	}
	plan.Files = int64(len(all))
	used, err := tx.Usage(ctx)
	if err != nil {
		return movePlan{}, err
	}
	used.Bytes -= to.own.Size
	if to.own.Kind == KindFile {
		used.Files--
	}
	for _, e := range all {
		if e.Layer != LayerBucket {
			if limit := v.limits.FileBytes; limit > 0 && e.Size > limit {
				return movePlan{}, fsops.ErrTooLarge(limit, e.Size)
			}
			used.Bytes, used.Files = used.Bytes+e.Size, used.Files+1
		}
	}
	return plan, v.limits.allow(used)
}

// left returns some of the files that are still to be moved, after a key.
func (v *View) left(ctx context.Context, plan movePlan, after string) ([]Entry, error) {
	if plan.Files == 0 || plan.Kind == KindFile && after != "" {
		return nil, nil
	}
	at, err := v.resolve(ctx, v.own, plan.From)
	if err != nil || at.entry.Kind != plan.Kind {
		return nil, err
	}
	if plan.Kind == KindFile {
		return []Entry{at.entry}, nil
	}
	var some []Entry
	for m := v.merge(v.own, at, true, after); len(some) < stepFiles; {
		e, ok, err := m.next(ctx)
		if err != nil || !ok {
			return some, err
		}
		if e.Kind == KindFile {
			some = append(some, e)
		}
	}
	return some, nil
}

// errMoved says that a file is not any more what it was when it was listed.
var errMoved = errors.New("files: the file was changed while it was moved")

// moveOne moves one file. Who has changed it meanwhile wins: the changed file is moved.
func (v *View) moveOne(ctx context.Context, call Call, mv Move, plan movePlan, e Entry) error {
	to := e.Path.Rebase(plan.From, plan.To)
	parts := v.store.(divided)
	copied := "" // the revision of a copy of ours that may be replaced
	for range maxRecopies {
		if done, err := v.movedBefore(ctx, call, plan, e); done || err != nil {
			return err
		}
		may := func(at place) error {
			switch {
			case !at.blocked.IsRoot():
				return fsops.ErrNotADirectory(to.String(), at.blocked.String())
			case at.entry.Kind == KindDir, at.entry.Kind == KindFile && at.entry.Path.Key() != e.Path.Key() && at.entry.Revision != copied && !(plan.Kind == KindFile && mv.Overwrite):
				return fsops.ErrExists(to.String(), at.entry.Revision)
			}
			return nil
		}
		var err error
		if e.Layer == LayerBucket && parts.Owner(v.space, e.Path) == parts.Owner(v.space, to) {
			_, err = doStep(ctx, v, call.step("rename", stepOf(plan, e)), func(ctx context.Context, tx Tx) (bool, error) { return true, v.rename(ctx, tx, call, e, to, may) })
		} else {
			var revision string
			if revision, err = v.copyOver(ctx, call, plan, e, to, may); revision != "" {
				copied = revision
			}
		}
		if err == nil || !errors.Is(err, errMoved) && !errors.Is(err, ErrChanged) {
			return err
		}
		at, err := v.resolve(ctx, v.own, e.Path)
		if err != nil || at.entry.Kind != KindFile {
			return err
		}
		if e = at.entry; mv.Revision != "" {
			if err := at.mustHave(mv.Revision); err != nil {
				return err
			}
		}
	}
	return ErrChanged
}

// stepOf names the steps of one revision of one file.
func stepOf(plan movePlan, e Entry) string {
	return e.Revision + ":" + e.Path.Rebase(plan.From, fsops.Path{}).Key()
}

// movedBefore says whether a single file was moved already and the one that is there now came afterwards.
func (v *View) movedBefore(ctx context.Context, call Call, plan movePlan, e Entry) (bool, error) {
	if plan.Kind != KindFile || e.Revision == plan.Revision || call.Effect.ID == "" {
		return false, nil
	}
	e.Revision = plan.Revision
	for _, name := range []string{"rename", "delete"} {
		if done, err := v.recorded(ctx, call.step(name, stepOf(plan, e))); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// rename moves a file within one store.
func (v *View) rename(ctx context.Context, tx Tx, call Call, e Entry, to fsops.Path, may func(place) error) error {
	from, err := v.unchanged(ctx, tx, e)
	if err != nil {
		return err
	}
	at, err := v.resolve(ctx, tx, to)
	if err == nil {
		err = may(at)
	}
	if err != nil {
		return err
	}
	if _, err := v.moveFile(ctx, tx, call, nil, e, to); err != nil || !from.entry.Shadows {
		return err
	}
	return tx.SetWhiteout(ctx, e.Path)
}

// unchanged resolves a file that must be what it was when it was listed.
func (v *View) unchanged(ctx context.Context, tx Tx, e Entry) (place, error) {
	at, err := v.resolve(ctx, tx, e.Path)
	if err == nil && (at.entry.Kind != KindFile || at.entry.Revision != e.Revision) {
		err = errMoved
	}
	return at, err
}

// copyOver copies a file, checks the copy, and deletes the file. It returns the revision of the copy, also when the last step failed.
func (v *View) copyOver(ctx context.Context, call Call, plan movePlan, e Entry, to fsops.Path, may func(place) error) (string, error) {
	content, err := v.treeOf(e.Layer).Open(ctx, e.Node)
	if err != nil {
		return "", err
	}
	defer content.Close()
	staged, err := v.store.Stage(ctx, NewReader(ctx, content, 0), 0)
	if err != nil {
		return "", err
	}
	defer staged.Discard()
	if e.SHA256 != "" && e.SHA256 != staged.SHA256() {
		return "", errMoved
	}
	copied, err := doStep(ctx, v, call.step("copy", stepOf(plan, e)), func(ctx context.Context, tx Tx) (Node, error) {
		if _, err := v.unchanged(ctx, tx, e); err != nil {
			return Node{}, err
		}
		at, err := v.resolve(ctx, tx, to)
		if err == nil {
			err = may(at)
		}
		if err != nil {
			return Node{}, err
		}
		node, err := tx.Put(ctx, File{Path: to, Content: staged, Mode: e.Mode, Author: call.Author, ModTime: e.ModTime})
		if err != nil {
			return Node{}, err
		}
		return node, tx.Log(ctx, Change{Kind: ChangeMoved, Path: node.Path, From: e.Path, Revision: node.Revision, Author: call.Author})
	})
	if err != nil {
		return "", err
	}
	if err := v.verify(ctx, copied, staged.SHA256()); err != nil {
		return copied.Revision, err
	}
	_, err = doStep(ctx, v, call.step("delete", stepOf(plan, e)), func(ctx context.Context, tx Tx) (bool, error) {
		at, err := v.unchanged(ctx, tx, e)
		if err != nil {
			return false, err
		}
		return true, v.deleteFile(ctx, tx, call, at.entry)
	})
	return copied.Revision, err
}

// verify reads a copy back. One that somebody has changed since is theirs; one that is gone is no copy.
func (v *View) verify(ctx context.Context, copied Node, sum string) error {
	nodes, err := v.own.Get(ctx, copied.Path)
	if err != nil {
		return err
	}
	switch n := nodes[0]; {
	case n.Kind != KindFile:
		return fsops.ErrRevisionConflict(copied.Path.String(), "", "", n.ModTime)
	case n.Revision != copied.Revision:
		return nil
	}
	content, err := v.own.Open(ctx, nodes[0])
	if errors.Is(err, ErrChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, NewReader(ctx, content, 0)); err != nil {
		return err
	}
	if got, err := hex.DecodeString(sum); err != nil || !bytes.Equal(got, h.Sum(nil)) {
		return errdefs.Wrap(fmt.Errorf("the copy at %q has another SHA-256", copied.Path), errdefs.ErrDataLoss, fsops.Domain, fsops.ReasonChecksumMismatch,
			"the copy does not have the bytes of the file, which stays where it was")
	}
	return nil
}

// endMove hides what lower layers have at the old place and records the outcome.
func (v *View) endMove(ctx context.Context, tx Tx, plan movePlan) (Moved, error) {
	to, err := v.resolve(ctx, tx, plan.To)
	if err != nil {
		return Moved{}, err
	}
	if plan.Kind == KindFile {
		return Moved{Entry: to.entry, Files: plan.Files}, to.mustExist(plan.To)
	}
	if plan.Files > 0 && plan.From.Key() != plan.To.Key() {
		if err := v.hideAfter(ctx, tx, plan.From); err != nil {
			return Moved{}, err
		}
	}
	return Moved{Entry: Entry{Node: Node{Path: plan.To, Kind: KindDir, Mode: 0o755}, Layer: LayerBucket}, Files: plan.Files}, nil
}
