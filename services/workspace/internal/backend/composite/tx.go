package composite

import (
	"context"
	"errors"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// errAgain ends a run that found out which store it writes to.
var errAgain = errors.New("the update is to be run in another store")

// tx is one run of an update: it reads all stores and writes one.
type tx struct {
	tree
	u        *update
	open     []files.Tx        // updates of the stores that run now
	contexts []context.Context // of these
	base     context.Context   // the innermost of them
	target   int               // the store that may be written
	written  bool
	path     fsops.Path // that was written first
	again    bool
	across   error
}

var _ files.Tx = (*tx)(nil)

// newTx is a run that may write the store target, with nothing open but the default store.
func (u *update) newTx(ctx context.Context, first files.Tx, target int) *tx {
	n := len(u.store.stores)
	x := &tx{u: u, open: make([]files.Tx, n), contexts: make([]context.Context, n), base: ctx, target: target}
	x.open[0], x.contexts[0] = first, ctx
	x.tree = tree{store: u.store, space: u.space, routes: u.store.routesOf(u.space), update: x}
	return x
}

// write returns the transaction that writes a path, and its context. Only one store is written.
func (x *tx) write(ctx context.Context, p fsops.Path) (files.Tx, context.Context, int, error) {
	i := x.routes.owner(p)
	switch {
	case x.across != nil:
		return nil, nil, 0, x.across
	case x.again:
		return nil, nil, 0, errAgain
	case i == x.target:
		if !x.written {
			x.written, x.path = true, p
		}
	case !x.written:
		x.again, x.u.target = true, i
		return nil, nil, 0, errAgain
	default:
		x.across = x.apart(x.path, p)
		return nil, nil, 0, x.across
	}
	return x.open[i], x.store.in(ctx, i), i, nil
}

// apart is the error for two paths that two stores own.
func (x *tx) apart(a, b fsops.Path) error {
	first, _ := x.routes.route(a.Key())
	second, _ := x.routes.route(b.Key())
	return files.AcrossError(first, second)
}

// file is f with its content staged in the store.
func (x *tx) file(ctx context.Context, i int, f files.File) (files.File, error) {
	c, ok := f.Content.(*content)
	if !ok || c.store != x.store {
		return f, errors.New("content was staged in another store")
	}
	staged, late := c.ready(i)
	if late {
		x.again, x.u.target, x.u.late = true, i, c
		return f, errAgain
	}
	if staged == nil {
		var err error
		if staged, err = c.stage(ctx, i); err != nil {
			return f, err
		}
		x.u.loose = append(x.u.loose, staged)
	}
	f.Content = staged
	return f, nil
}

// Put implements [files.Tx].
func (x *tx) Put(ctx context.Context, f files.File) (files.Node, error) {
	to, in, i, err := x.write(ctx, f.Path)
	if err == nil {
		f, err = x.file(ctx, i, f)
	}
	if err != nil {
		return files.Node{}, err
	}
	return to.Put(in, f)
}

// Append implements [files.Tx].
func (x *tx) Append(ctx context.Context, f files.File) (files.Node, error) {
	to, in, i, err := x.write(ctx, f.Path)
	if err == nil {
		f, err = x.file(ctx, i, f)
	}
	if err != nil {
		return files.Node{}, err
	}
	return to.Append(in, f)
}

// Remove implements [files.Tx].
func (x *tx) Remove(ctx context.Context, p fsops.Path) error {
	to, in, _, err := x.write(ctx, p)
	if err != nil {
		return err
	}
	return to.Remove(in, p)
}

// Rename implements [files.Tx]. From one store to another it is [files.ErrAcross].
func (x *tx) Rename(ctx context.Context, from, to fsops.Path, author string) (files.Node, error) {
	if x.routes.owner(from) != x.routes.owner(to) {
		x.across = x.apart(from, to)
		return files.Node{}, x.across
	}
	t, in, _, err := x.write(ctx, from)
	if err != nil {
		return files.Node{}, err
	}
	return t.Rename(in, from, to, author)
}

// SetWhiteout implements [files.Tx].
func (x *tx) SetWhiteout(ctx context.Context, p fsops.Path) error {
	t, in, _, err := x.write(ctx, p)
	if err != nil {
		return err
	}
	return t.SetWhiteout(in, p)
}

// ClearWhiteout implements [files.Tx].
func (x *tx) ClearWhiteout(ctx context.Context, p fsops.Path) error {
	t, in, _, err := x.write(ctx, p)
	if err != nil {
		return err
	}
	return t.ClearWhiteout(in, p)
}

// Log implements [files.Tx]: in the log of the store that owns the path.
func (x *tx) Log(ctx context.Context, c files.Change) error {
	t, in, _, err := x.write(ctx, c.Path)
	if err != nil {
		return err
	}
	return t.Log(in, c)
}

// Usage implements [files.Tx]: the sum of all stores.
func (x *tx) Usage(ctx context.Context) (files.Usage, error) {
	var sum files.Usage
	for _, i := range x.store.holding(x.space) {
		var u files.Usage
		var err error
		if in := x.store.in(ctx, i); x.open[i] != nil {
			u, err = x.open[i].Usage(in)
		} else {
			u, err = x.store.stores[i].Usage(in, x.space)
		}
		if err != nil {
			return files.Usage{}, err
		}
		sum = add(sum, u)
	}
	return sum, nil
}
