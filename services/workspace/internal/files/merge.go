package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

// mergePage is how many nodes a merge takes from a layer at once.
const mergePage = 1000

// maxWarnings bounds the warnings of one listing.
const maxWarnings = 20

// merge walks a directory of the view in the order of keys.
type merge struct {
	view    *View
	own     Own
	dir     place
	deep    bool
	streams []*stream // index 0 is the bucket; nil where the layer has nothing here
	active  map[string][]bool
	// Warnings of the layers so far.
	warnings []string
	// query leaves out files that can't match, where a layer has an index.
	query trigram.Query
}

// stream is the nodes of one layer.
type stream struct {
	tree  Tree
	after string
	nodes []Node
	more  bool
}

// merge begins a walk of a resolved directory after a key.
func (v *View) merge(own Own, dir place, deep bool, after string) *merge {
	m := &merge{view: v, own: own, dir: dir, deep: deep, active: map[string][]bool{dir.path.Key(): dir.active}}
	for l, active := range dir.active {
		var tree Tree = own
		if l > 0 {
			tree = v.lower[l-1].Tree
		}
		if !active {
			m.streams = append(m.streams, nil)
			continue
		}
		m.streams = append(m.streams, &stream{tree: tree, after: after, more: true})
	}
	return m
}

// next returns the next entry that is seen, false at the end.
func (m *merge) next(ctx context.Context) (Entry, bool, error) {
	for {
		key, err := m.lowest(ctx)
		if err != nil || key == "" {
			return Entry{}, false, err
		}
		e, err := m.take(ctx, key)
		if err != nil {
			return Entry{}, false, err
		}
		if e.Exists() {
			return e, true, nil
		}
	}
}

// lowest returns the lowest key that a stream has next, "" at the end of all.
func (m *merge) lowest(ctx context.Context) (string, error) {
	low := ""
	for _, s := range m.streams {
		if s == nil {
			continue
		}
		if err := m.fill(ctx, s); err != nil {
			return "", err
		}
		if len(s.nodes) > 0 && (low == "" || s.nodes[0].Path.Key() < low) {
			low = s.nodes[0].Path.Key()
		}
	}
	return low, nil
}

func (m *merge) fill(ctx context.Context, s *stream) error {
	for len(s.nodes) == 0 && s.more {
		list := s.tree.Children
		if m.deep {
			list = s.tree.Below
		}
		if m.indexed(s) {
			list = func(ctx context.Context, dir fsops.Path, after string, limit int) (Page, error) {
				return s.tree.(Searcher).Candidates(ctx, dir, m.query, after, limit)
			}
		}
		page, err := list(ctx, m.dir.path, s.after, mergePage)
		if err != nil {
			return err
		}
		s.nodes, s.more = page.Nodes, page.More && len(page.Nodes) > 0
		if len(page.Nodes) > 0 {
			s.after = page.Nodes[len(page.Nodes)-1].Path.Key()
		}
		if err := m.uncover(ctx, s); err != nil {
			return err
		}
		for _, w := range page.Warnings {
			if len(m.warnings) < maxWarnings {
				m.warnings = append(m.warnings, w)
			}
		}
	}
	return nil
}

// indexed says whether only what may match is taken from a layer.
func (m *merge) indexed(s *stream) bool {
	_, ok := s.tree.(Searcher)
	return ok && m.deep && !m.query.All()
}

// uncover leaves out nodes that a higher layer hides by a path that it has and its index left out.
func (m *merge) uncover(ctx context.Context, s *stream) error {
	for _, higher := range m.streams {
		if higher == s {
			return nil
		}
		if higher == nil || !m.indexed(higher) || len(s.nodes) == 0 {
			continue
		}
		paths := make([]fsops.Path, len(s.nodes))
		for i, n := range s.nodes {
			paths[i] = n.Path
		}
		over, err := higher.tree.Get(ctx, paths...)
		if err != nil {
			return err
		}
		kept := s.nodes[:0]
		for i, n := range s.nodes {
			if !over[i].Exists() {
				kept = append(kept, n)
			}
		}
		s.nodes = kept
	}
	return nil
}

// skip leaves out the rest of what is below a directory.
func (m *merge) skip(dir fsops.Path) {
	for _, s := range m.streams {
		if s == nil {
			continue
		}
		for len(s.nodes) > 0 && s.nodes[0].Path.Under(dir) {
			s.nodes = s.nodes[1:]
		}
		if end := AfterBelow(dir); len(s.nodes) == 0 && s.after > dir.Key()+"/" && s.after < end {
			s.after = end
		}
	}
}

// AfterBelow is the place in a listing after all that is below a directory.
func AfterBelow(dir fsops.Path) string { return dir.Key() + "/\U0010FFFF" }

// take removes a key from all streams and returns what is seen there; the zero entry when it is hidden.
func (m *merge) take(ctx context.Context, key string) (Entry, error) {
	var top Entry
	for l, s := range m.streams {
		if s == nil || len(s.nodes) == 0 || s.nodes[0].Path.Key() != key {
			continue
		}
		n := s.nodes[0]
		s.nodes = s.nodes[1:]
		if l > 0 {
			seen, err := m.lowerSeen(ctx, l, n.Path)
			if err != nil {
				return Entry{}, err
			}
			if !seen {
				continue
			}
		}
		if top.Exists() {
			top.Shadows = true
			continue
		}
		top = Entry{Node: n, Layer: m.view.layerOf(l)}
	}
	if top.Kind != KindDir || top.Layer == LayerBucket || !anyUnder(m.dir.whites, key) {
		return top, nil
	}
	at, err := m.view.resolve(ctx, m.own, top.Path)
	if err != nil || !at.entry.Exists() {
		return Entry{}, err
	}
	return top, nil
}

// lowerSeen says whether a node of a lower layer is not hidden by a whiteout, nor by a file of a higher layer above it.
func (m *merge) lowerSeen(ctx context.Context, layer int, p fsops.Path) (bool, error) {
	if hasKey(m.dir.whites, p.Key()) {
		return false, nil
	}
	parent := p.Parent()
	active, known := m.active[parent.Key()]
	if !known {
		at, err := m.view.walk(ctx, m.own, parent)
		if err != nil {
			return false, err
		}
		active = at.active
		m.active[parent.Key()] = active
	}
	return active[layer], nil
}

// nothing is a layer without anything in it.
type nothing struct{}

func (nothing) Get(_ context.Context, paths ...fsops.Path) ([]Node, error) {
	return make([]Node, len(paths)), nil
}
func (nothing) Children(context.Context, fsops.Path, string, int) (Page, error) { return Page{}, nil }
func (nothing) Below(context.Context, fsops.Path, string, int) (Page, error)    { return Page{}, nil }
func (nothing) Open(_ context.Context, n Node) (Content, error) {
	return nil, fsops.ErrNotFound(n.Path.String())
}
func (nothing) Load(_ context.Context, nodes ...Node) ([][]byte, error) {
	return make([][]byte, len(nodes)), nil
}
func (nothing) Whiteouts(context.Context) ([]string, error) { return nil, nil }
