package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// Move is what to move, and where to.
type Move struct {
	From, To  fsops.Path
	Overwrite bool
	Revision  string // of a file; "" expects none
}

// Moved is the outcome.
type Moved struct {
	Entry  Entry
	Files  int64
	Cursor string
}

// Move renames a file, or a directory with all below it. What comes from lower layers is copied up to the new place and hidden at the old one. A file moved
// onto itself stays. A target that exists is PATH_EXISTS, unless both are files and overwrite is set.
func (v *View) Move(ctx context.Context, call Call, mv Move) (Moved, error) {
	return inSteps(ctx, v, call, func() (Moved, error) {
		staged := v.newCopies()
		defer staged.discard()
		return update(ctx, v, call, func(out *Moved, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Moved, error) {
			return v.move(ctx, tx, call, staged, mv)
		})
	}, func() (Moved, error) { return v.moveInSteps(ctx, call, mv) })
}

// move is Move within an update.
func (v *View) move(ctx context.Context, tx Tx, call Call, staged *copies, mv Move) (Moved, error) {
	from, to, target, stays, err := v.movable(ctx, tx, mv)
	if stays || err != nil {
		return Moved{Entry: from.entry}, err
	}
	all, err := v.contents(ctx, tx, from, true)
	if err != nil {
		return Moved{}, err
	}
	out := Moved{Entry: Entry{Node: Node{Path: target, Kind: KindDir, Mode: 0o755}, Layer: LayerBucket}}
	for _, e := range all {
		node, err := v.moveFile(ctx, tx, call, staged, e, e.Path.Rebase(from.path, target))
		if err != nil {
			return Moved{}, err
		}
		if from.entry.Kind == KindFile {
			out.Entry = to.written(node)
		}
		out.Files++
	}
	if err := v.hideLower(ctx, tx, from); err != nil {
		return Moved{}, err
	}
	return out, v.checkQuota(ctx, tx)
}

// movable resolves both ends of a move and the path that the source gets, and checks that it may be moved. stays says that nothing is to be done.
func (v *View) movable(ctx context.Context, tx Tx, mv Move) (from, to place, target fsops.Path, stays bool, err error) {
	if mv.From.IsRoot() || mv.To.IsRoot() {
		return place{}, place{}, fsops.Path{}, false, fsops.ErrIsDirectory("")
	}
	if from, err = v.resolve(ctx, tx, mv.From); err == nil {
		err = from.mustExist(mv.From)
	}
	if err == nil && mv.Revision != "" {
		err = from.mustHave(mv.Revision)
	}
	if err == nil {
		to, err = v.resolve(ctx, tx, mv.To)
	}
	if err != nil {
		return place{}, place{}, fsops.Path{}, false, err
	}
	stays, err = mayMove(from, to, mv)
	if target = to.path; from.path.Key() == to.path.Key() {
		target = mv.To // only the spelling changes
	}
	return from, to, target, stays, err
}

// mayMove checks source against target. It says whether nothing is to be done.
func mayMove(from, to place, mv Move) (stays bool, err error) {
	same := from.path.Key() == to.path.Key()
	switch {
	case same && mv.To.Name() == from.path.Name():
		return true, nil
	case to.path.Under(from.path):
		return false, errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonPathInvalid, "a directory can't be moved into itself").
			With("path", to.path.String())
	case !to.blocked.IsRoot():
		return false, fsops.ErrNotADirectory(mv.To.String(), to.blocked.String())
	case same || !to.entry.Exists():
		return false, nil
	case to.entry.Kind == KindDir || from.entry.Kind == KindDir || !mv.Overwrite:
		return false, fsops.ErrExists(mv.To.String(), to.entry.Revision)
	}
	return false, nil
}

// moveFile moves one file that is seen at e to a path of the bucket.
func (v *View) moveFile(ctx context.Context, tx Tx, call Call, staged *copies, e Entry, to fsops.Path) (Node, error) {
	var node Node
	var err error
	if e.Layer == LayerBucket {
		node, err = tx.Rename(ctx, e.Path, to, call.Author)
	} else {
		var content Staged
		if content, err = staged.of(ctx, v.treeOf(e.Layer), e.Node); err == nil {
			node, err = tx.Put(ctx, File{Path: to, Content: content, Mode: e.Mode, Author: call.Author})
		}
	}
	if err != nil {
		return Node{}, err
	}
	return node, tx.Log(ctx, Change{Kind: ChangeMoved, Path: to, From: e.Path, Revision: node.Revision, Author: call.Author})
}

func (v *View) treeOf(layer Layer) Tree {
	for _, l := range v.lower {
		if l.Layer == layer {
			return l.Tree
		}
	}
	return v.own
}

// copies are the contents that a move takes up from lower layers. An update may run several times; each run stages its own.
type copies struct {
	view *View
	all  []Staged
}

func (v *View) newCopies() *copies { return &copies{view: v} }

func (c *copies) of(ctx context.Context, tree Tree, n Node) (Staged, error) {
	content, err := tree.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	staged, err := c.view.store.Stage(ctx, NewReader(ctx, content, 0), c.view.limits.FileBytes)
	if err == nil {
		c.all = append(c.all, staged)
	}
	return staged, err
}

func (c *copies) discard() {
	for _, s := range c.all {
		s.Discard()
	}
}
