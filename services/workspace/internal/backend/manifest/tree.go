package manifest

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tree reads a space as it is now.
type tree struct {
	store *Store
	space files.Space
}

var _ files.Own = (*tree)(nil)

// now returns the newest state of a space.
func (s *Store) look(ctx context.Context, space files.Space) (*state, error) {
	l, release, err := s.hold(space)
	if err != nil {
		return nil, err
	}
	defer release()
	return l.look(ctx)
}

// Get implements [files.Tree].
func (t *tree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return nil, err
	}
	return st.get(paths), nil
}

// Children implements [files.Tree].
func (t *tree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return files.Page{}, err
	}
	return st.page(dir, after, limit, false), nil
}

// Below implements [files.Tree].
func (t *tree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return files.Page{}, err
	}
	return st.page(dir, after, limit, true), nil
}

// Whiteouts implements [files.Own]. The caller must not change what it gets.
func (t *tree) Whiteouts(ctx context.Context) ([]string, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return nil, err
	}
	return st.whites, nil
}

// Revisions implements [files.Own].
func (t *tree) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return nil, false, err
	}
	return st.revisions(p, after, limit)
}

// Revision implements [files.Own].
func (t *tree) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	st, err := t.store.look(ctx, t.space)
	if err != nil {
		return files.Node{}, err
	}
	return st.revision(p, revision), nil
}

// get returns what is at each path.
func (s *state) get(paths []fsops.Path) []files.Node {
	out := make([]files.Node, len(paths))
	for i, p := range paths {
		if p.IsRoot() {
			out[i] = files.Node{Kind: files.KindDir, Mode: 0o755}
		} else if it := s.lookUp(p); it != nil {
			out[i] = it.Node
		}
	}
	return out
}

// page is one page of a listing.
func (s *state) page(dir fsops.Path, after string, limit int, deep bool) (page files.Page) {
	s.each(dir.Key(), after, deep, func(it *item) bool {
		if len(page.Nodes) == limit {
			page.More = true
			return false
		}
		page.Nodes = append(page.Nodes, it.Node)
		return true
	})
	return page
}

// revision returns the current or a previous revision of a file; the zero node when it is not kept.
func (s *state) revision(p fsops.Path, name string) files.Node {
	if name == "" {
		return s.get([]fsops.Path{p})[0]
	}
	if it := s.file(p); it != nil && it.Revision == name {
		return it.Node
	}
	if r := s.pastOf(p, name); r != nil {
		return r.Node
	}
	return files.Node{}
}
