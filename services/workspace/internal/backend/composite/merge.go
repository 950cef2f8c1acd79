package composite

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// lister is a way to list a store: its children of a directory, or everything below.
type lister func(own files.Own, ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error)

// stream is what one store has of a listing.
type stream struct {
	store int
	after string
	nodes []files.Node
	more  bool
}

// merge lists a directory from all stores that may have something in it, in the order of keys, each path once.
func (t *tree) merge(ctx context.Context, dir fsops.Path, after string, limit int, list lister) (files.Page, error) {
	stores := t.routes.stores(dir)
	if len(stores) == 1 {
		own, in := t.own(ctx, stores[0])
		return list(own, in, dir, after, limit)
	}
	var streams []*stream
	for _, s := range stores {
		streams = append(streams, &stream{store: s, after: after, more: true})
	}
	var out files.Page
	for len(out.Nodes) < limit {
		low, found := "", false
		for _, s := range streams {
			if err := t.fill(ctx, s, dir, limit, list, &out); err != nil {
				return files.Page{}, err
			}
			if len(s.nodes) > 0 && (!found || s.nodes[0].Path.Key() < low) {
				low, found = s.nodes[0].Path.Key(), true
			}
		}
		if !found {
			return out, nil
		}
		var n files.Node
		for _, s := range streams {
			if len(s.nodes) > 0 && s.nodes[0].Path.Key() == low {
				n, s.nodes = both(n, s.nodes[0]), s.nodes[1:]
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, s := range streams {
		out.More = out.More || s.more || len(s.nodes) > 0
	}
	return out, nil
}

// fill fetches nodes of a stream until it has one that is shown, or ends.
func (t *tree) fill(ctx context.Context, s *stream, dir fsops.Path, limit int, list lister, out *files.Page) error {
	for len(s.nodes) == 0 && s.more {
		own, in := t.own(ctx, s.store)
		page, err := list(own, in, dir, s.after, limit)
		if err != nil {
			return err
		}
		out.Warnings = append(out.Warnings, page.Warnings...)
		s.more = page.More && len(page.Nodes) > 0
		for _, n := range page.Nodes {
			shown, err := t.shows(ctx, s.store, n)
			if err != nil {
				return err
			}
			if shown {
				s.nodes = append(s.nodes, n)
			}
		}
		if s.more {
			s.after = t.past(s.store, page.Nodes[len(page.Nodes)-1].Path.Key(), dir)
		}
	}
	return nil
}
