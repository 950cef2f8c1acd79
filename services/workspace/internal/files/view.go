package files

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Limits bound what a bucket may hold. Zero: no limit.
type Limits struct {
	Bytes, Files, FileBytes int64
}

// Lower is a layer below the bucket.
type Lower struct {
	// Layer is LayerUser or LayerTemplate.
	Layer Layer
	// Tree holds its files. It is read only.
	Tree Tree
}

// View is a bucket with the layers below it, merged. Make one for each call: it is cheap.
type View struct {
	store  Store
	space  Space
	own    Own
	lower  []Lower // highest first
	limits Limits
	now    func() time.Time
}

// NewView returns the view of a space over lower layers, highest first.
func NewView(store Store, space Space, lower []Lower, limits Limits, now func() time.Time) *View {
	return &View{store: store, space: space, own: store.Space(space), lower: lower, limits: limits, now: now}
}

// Space returns the name of the bucket's own space.
func (v *View) Space() Space { return v.space }

// Lower returns the layers below the bucket, highest first.
func (v *View) Lower() []Lower { return v.lower }

// Only returns the view of one layer alone, for reading. A layer that the bucket does not have is empty. LayerAny is the view itself.
func (v *View) Only(layer Layer) *View {
	if layer == LayerAny {
		return v
	}
	only := *v
	only.lower = nil
	if layer == LayerBucket {
		return &only
	}
	only.own = nothing{}
	for _, l := range v.lower {
		if l.Layer == layer {
			only.lower = []Lower{l}
		}
	}
	return &only
}

// place is what a view knows about one path.
type place struct {
	path    fsops.Path // as spelled by what exists, and as asked for where nothing does
	own     Node       // the bucket's own node
	entry   Entry      // what is seen; the zero entry when nothing is
	tree    Tree       // holds the entry
	active  []bool     // layers with a directory here that is part of what is seen; index 0 is the bucket
	blocked fsops.Path // the file above the path that hides it; the root when there is none
	whites  []string   // all whiteouts of the bucket
	// lowerHas says that without the bucket's own node something of a lower layer would be seen: deletion needs a whiteout.
	lowerHas bool
}

// resolve finds out what is seen at a path, looking through own for the bucket's part.
func (v *View) resolve(ctx context.Context, own Own, p fsops.Path) (place, error) {
	at, err := v.walk(ctx, own, p)
	if err != nil || at.entry.Kind != KindDir || at.own.Exists() || !anyUnder(at.whites, at.path.Key()) {
		return at, err
	}
	// A directory of lower layers is seen only while something below it is.
	seen, err := v.anyVisible(ctx, own, at)
	if err != nil {
		return place{}, err
	}
	if !seen {
		return at.hidden(), nil
	}
	return at, nil
}

// walk is resolve, but for directories whose every file is hidden. Layers are merged name by name from the root: the highest layer that has a name says what it is, a file
// there hides everything below it in lower layers, and a whiteout hides the lower layers from there on.
func (v *View) walk(ctx context.Context, own Own, p fsops.Path) (place, error) {
	at := place{path: p, active: make([]bool, 1+len(v.lower))}
	for i := range at.active {
		at.active[i] = true
	}
	trees := []Tree{own}
	for _, l := range v.lower {
		trees = append(trees, l.Tree)
	}
	var err error
	if len(v.lower) > 0 {
		if at.whites, err = own.Whiteouts(ctx); err != nil {
			return place{}, err
		}
	}
	if p.IsRoot() {
		at.entry = Entry{Node: Node{Kind: KindDir, Mode: 0o755}, Layer: LayerBucket}
		at.tree, at.own = own, at.entry.Node
		return at, nil
	}
	chain := append(p.Ancestors(), p)
	nodes := make([][]Node, len(trees))
	if nodes[0], err = own.Get(ctx, chain...); err != nil {
		return place{}, err
	}
	at.own = nodes[0][len(chain)-1]
	for i, q := range chain {
		last := i == len(chain)-1
		if hasKey(at.whites, q.Key()) {
			for l := 1; l < len(at.active); l++ {
				at.active[l] = false
			}
		}
		top := Entry{}
		var topTree Tree
		covered := false // a file of a higher layer is here
		for l := range trees {
			if !at.active[l] {
				continue
			}
			if nodes[l] == nil {
				if nodes[l], err = trees[l].Get(ctx, chain...); err != nil {
					return place{}, err
				}
			}
			n := nodes[l][i]
			at.active[l] = n.Kind == KindDir && !covered
			covered = covered || n.Kind == KindFile
			if !n.Exists() {
				continue
			}
			at.lowerHas = at.lowerHas || last && l > 0
			if top.Exists() {
				top.Shadows = true
			} else {
				top, topTree = Entry{Node: n, Layer: v.layerOf(l)}, trees[l]
			}
		}
		switch {
		case !top.Exists() && !last:
			return at.hidden(), nil
		case top.Kind == KindFile && !last:
			at.blocked = q
			return at.hidden(), nil
		case top.Exists():
			at.path = top.Path.Join(strings.Join(strings.Split(p.String(), "/")[i+1:], "/"))
		}
		at.entry, at.tree = top, topTree
	}
	return at, nil
}

// hidden is the place without anything to be seen.
func (at place) hidden() place {
	at.entry, at.tree = Entry{}, nil
	at.active = make([]bool, len(at.active))
	return at
}

// anyVisible says whether a file is seen below a directory of lower layers only.
func (v *View) anyVisible(ctx context.Context, own Own, dir place) (bool, error) {
	m := v.merge(own, dir, true, "")
	for {
		e, ok, err := m.next(ctx)
		if err != nil || !ok {
			return false, err
		}
		if e.Kind == KindFile {
			return true, nil
		}
	}
}

func (v *View) layerOf(index int) Layer {
	if index == 0 {
		return LayerBucket
	}
	return v.lower[index-1].Layer
}

// see resolves a path that must exist.
func (v *View) see(ctx context.Context, p fsops.Path) (place, error) {
	at, err := v.resolve(ctx, v.own, p)
	if err != nil {
		return place{}, err
	}
	return at, at.mustExist(p)
}

func (at place) mustExist(asked fsops.Path) error {
	switch {
	case at.entry.Exists():
		return nil
	case !at.blocked.IsRoot():
		return fsops.ErrNotADirectory(asked.String(), at.blocked.String())
	}
	return fsops.ErrNotFound(asked.String())
}

// hasKey says whether sorted keys hold key.
func hasKey(keys []string, key string) bool {
	_, found := slices.BinarySearch(keys, key)
	return found
}

// anyUnder says whether sorted keys hold one below dir.
func anyUnder(keys []string, dir string) bool {
	i := sort.SearchStrings(keys, dir+"/")
	return i < len(keys) && strings.HasPrefix(keys[i], dir+"/")
}
