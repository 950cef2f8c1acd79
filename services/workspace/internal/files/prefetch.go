package files

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Prefetcher is a tree that can look up paths and open the last of them at once, for stores where each look costs a round trip.
type Prefetcher interface {
	Tree
	// GetOpen is Get, with the content of the last path where that is a small file. Nil: use Open.
	GetOpen(ctx context.Context, paths ...fsops.Path) ([]Node, Content, error)
}

// prefetching is the own tree of one view for the opening of one file.
type prefetching struct {
	Own
	from    Prefetcher
	node    Node
	content Content
}

// prefetch returns own so that a look-up of a file also opens it, where the tree can.
func prefetch(own Own) Own {
	if p, ok := own.(Prefetcher); ok {
		return &prefetching{Own: own, from: p}
	}
	return own
}

// Get implements [Tree].
func (p *prefetching) Get(ctx context.Context, paths ...fsops.Path) ([]Node, error) {
	nodes, content, err := p.from.GetOpen(ctx, paths...)
	if err == nil && content != nil {
		p.node, p.content = nodes[len(nodes)-1], content
	}
	return nodes, err
}

// Open implements [Tree].
func (p *prefetching) Open(ctx context.Context, n Node) (Content, error) {
	if p.content != nil && n.Ref == p.node.Ref && n.Revision == p.node.Revision {
		return p.content, ctx.Err()
	}
	return p.Own.Open(ctx, n)
}
