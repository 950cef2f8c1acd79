package templates

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// subtree is a part of a stored template: what lies below a directory and is visible.
type subtree struct {
	files.Tree
	base    fsops.Path
	visible func(fsops.Path) bool
}

func (s subtree) sees(p fsops.Path) bool {
	for _, dir := range p.Ancestors() {
		if !s.visible(dir) {
			return false
		}
	}
	return p.IsRoot() || s.visible(p)
}

// inner moves a node out of the base.
func (s subtree) inner(n files.Node) files.Node {
	if n.Exists() {
		n.Path = n.Path.Rebase(s.base, fsops.Path{})
	}
	return n
}

// outer is the path in the whole.
func (s subtree) outer(p fsops.Path) fsops.Path { return s.base.Join(p.String()) }

// Get implements [files.Tree].
func (s subtree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	whole := make([]fsops.Path, len(paths))
	for i, p := range paths {
		whole[i] = s.outer(p)
	}
	nodes, err := s.Tree.Get(ctx, whole...)
	for i := range nodes {
		if !s.sees(paths[i]) {
			nodes[i] = files.Node{}
			continue
		}
		nodes[i] = s.inner(nodes[i])
	}
	return nodes, err
}

// Children implements [files.Tree].
func (s subtree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return s.page(ctx, s.Tree.Children, dir, after, limit)
}

// Below implements [files.Tree].
func (s subtree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return s.page(ctx, s.Tree.Below, dir, after, limit)
}

type lister func(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error)

// page passes pages on without what is hidden. One that would be empty is left out, for an empty page is the last.
func (s subtree) page(ctx context.Context, list lister, dir fsops.Path, after string, limit int) (files.Page, error) {
	if after != "" && !s.base.IsRoot() {
		after = s.base.Key() + "/" + after
	}
	for {
		page, err := list(ctx, s.outer(dir), after, limit)
		if err != nil || len(page.Nodes) == 0 {
			return page, err
		}
		after = page.Nodes[len(page.Nodes)-1].Path.Key()
		kept := page.Nodes[:0:0]
		for _, n := range page.Nodes {
			if n = s.inner(n); s.sees(n.Path) {
				kept = append(kept, n)
			}
		}
		if len(kept) > 0 || !page.More {
			page.Nodes = kept
			return page, nil
		}
	}
}

// Open implements [files.Tree].
func (s subtree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	n.Path = s.outer(n.Path)
	return s.Tree.Open(ctx, n)
}

// Load implements [files.Tree].
func (s subtree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	whole := make([]files.Node, len(nodes))
	for i, n := range nodes {
		n.Path = s.outer(n.Path)
		whole[i] = n
	}
	return s.Tree.Load(ctx, whole...)
}
