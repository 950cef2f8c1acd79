package composite

import (
	"context"
	"slices"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tree reads a space, by itself or within an update.
type tree struct {
	store  *Store
	space  files.Space
	routes *routes
	update *tx // nil outside of an update of this very space
}

// Space implements [files.Store].
func (s *Store) Space(space files.Space) files.Own {
	return &tree{store: s, space: space, routes: s.routesOf(space)}
}

// own is the part of the space in one store, and the context to call it with.
func (t *tree) own(ctx context.Context, i int) (files.Own, context.Context) {
	if t.update != nil && t.update.open[i] != nil {
		return t.update.open[i], t.store.in(ctx, i)
	}
	return t.store.stores[i].Space(t.space), t.store.in(ctx, i)
}

// Get implements [files.Tree].
func (t *tree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	out := make([]files.Node, len(paths))
	ask := map[int][]int{} // store → indexes
	var order []int
	for i, p := range paths {
		for _, s := range t.routes.stores(p) {
			if len(ask[s]) == 0 {
				order = append(order, s)
			}
			ask[s] = append(ask[s], i)
		}
	}
	for _, s := range order {
		some := make([]fsops.Path, len(ask[s]))
		for j, i := range ask[s] {
			some[j] = paths[i]
		}
		own, in := t.own(ctx, s)
		nodes, err := own.Get(in, some...)
		if err != nil {
			return nil, err
		}
		for j, i := range ask[s] {
			if shown, err := t.shows(ctx, s, nodes[j]); err != nil {
				return nil, err
			} else if shown {
				out[i] = both(out[i], nodes[j])
			}
		}
	}
	return out, ctx.Err()
}

// both is one node of two that two stores have at the same path. They are directories; a file, which only its owner shows, is what stands.
func both(a, b files.Node) files.Node {
	switch {
	case !a.Exists(), a.Kind == files.KindDir && b.Kind == files.KindFile:
		return b
	case a.Kind == files.KindDir && b.ModTime.After(a.ModTime):
		a.ModTime = b.ModTime
	}
	return a
}

// shows says whether a node of a store is part of the space: the store owns it, or something below it.
func (t *tree) shows(ctx context.Context, s int, n files.Node) (bool, error) {
	_, shared := t.routes.above[n.Path.Key()]
	switch {
	case !n.Exists():
		return false, nil
	case n.Path.IsRoot():
		return true, nil
	case n.Kind == files.KindFile || !shared:
		return t.routes.owner(n.Path) == s, nil
	}
	return t.ownsBelow(ctx, s, n.Path)
}

// probe is how many nodes are looked at together when a directory is probed.
const probe = 32

// ownsBelow says whether a store has a file below a directory that it owns. Only directories above routes are asked for it.
func (t *tree) ownsBelow(ctx context.Context, s int, dir fsops.Path) (bool, error) {
	own, in := t.own(ctx, s)
	for after := ""; ; {
		page, err := own.Below(in, dir, after, probe)
		if err != nil {
			return false, err
		}
		for _, n := range page.Nodes {
			if n.Kind == files.KindFile && t.routes.owner(n.Path) == s {
				return true, nil
			}
		}
		if !page.More || len(page.Nodes) == 0 {
			return false, nil
		}
		after = t.past(s, page.Nodes[len(page.Nodes)-1].Path.Key(), dir)
	}
}

// past is the key to go on from after a node: behind everything of its route when another store owns that.
func (t *tree) past(s int, key string, dir fsops.Path) string {
	prefix, owner := t.routes.route(key)
	_, divided := t.routes.above[prefix]
	if owner == s || divided || !fsops.PathOf(prefix).Under(dir) {
		return key
	}
	return max(key, prefix+"/\U0010FFFF")
}

// Children implements [files.Tree].
func (t *tree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return t.merge(ctx, dir, after, limit, files.Own.Children)
}

// Below implements [files.Tree].
func (t *tree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return t.merge(ctx, dir, after, limit, files.Own.Below)
}

// Open implements [files.Tree].
func (t *tree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	own, in := t.own(ctx, t.routes.owner(n.Path))
	return own.Open(in, n)
}

// Load implements [files.Tree].
func (t *tree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out := make([][]byte, len(nodes))
	by := map[int][]int{}
	for i, n := range nodes {
		s := t.routes.owner(n.Path)
		by[s] = append(by[s], i)
	}
	for s, indexes := range by {
		some := make([]files.Node, len(indexes))
		for j, i := range indexes {
			some[j] = nodes[i]
		}
		own, in := t.own(ctx, s)
		data, err := own.Load(in, some...)
		if err != nil {
			return nil, err
		}
		for j, i := range indexes {
			out[i] = data[j]
		}
	}
	return out, nil
}

// Whiteouts implements [files.Own]: those of all stores, also where the routes were others when they were made, so that what was deleted stays deleted.
func (t *tree) Whiteouts(ctx context.Context) ([]string, error) {
	var all []string
	for _, i := range t.store.holding(t.space) {
		own, in := t.own(ctx, i)
		keys, err := own.Whiteouts(in)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Revisions implements [files.Own].
func (t *tree) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	own, in := t.own(ctx, t.routes.owner(p))
	return own.Revisions(in, p, after, limit)
}

// Revision implements [files.Own].
func (t *tree) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	own, in := t.own(ctx, t.routes.owner(p))
	return own.Revision(in, p, revision)
}
