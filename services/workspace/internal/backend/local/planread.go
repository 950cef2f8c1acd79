package local

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func (p *plan) one(ctx context.Context, path fsops.Path) (files.Node, error) {
	nodes, err := p.Get(ctx, path)
	if err != nil {
		return files.Node{}, err
	}
	return nodes[0], nil
}

// Get implements [files.Tree]: the disk, with what the update has written so far.
func (p *plan) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	out, err := p.tree.Get(ctx, paths...)
	if err != nil || len(p.written) == 0 {
		return out, err
	}
	for i, path := range paths {
		if n, ok := p.written[path.Key()]; ok {
			out[i] = n
		}
		if out[i].Kind == files.KindDir && !path.IsRoot() {
			holds, err := p.holds(ctx, path)
			if err != nil {
				return nil, err
			}
			if !holds {
				out[i] = files.Node{}
			}
		}
		if !out[i].Exists() && p.makes(path) {
			out[i] = files.Node{Path: path, Kind: files.KindDir, Mode: 0o755}
		}
	}
	return out, nil
}

// makes says whether the update has written something below a directory.
func (p *plan) makes(dir fsops.Path) bool { return p.dirs[dir.Key()] > 0 }

// Children implements [files.Tree].
func (p *plan) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return p.list(ctx, dir, after, limit, p.tree.Children, func(n fsops.Path) fsops.Path {
		for !n.Parent().IsRoot() && n.Parent().Key() != dir.Key() {
			n = n.Parent()
		}
		return n
	})
}

// Below implements [files.Tree].
func (p *plan) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return p.list(ctx, dir, after, limit, p.tree.Below, func(n fsops.Path) fsops.Path { return n })
}

// list is a listing of the disk with what the update has written so far. An update that lists after it wrote lists everything anew.
func (p *plan) list(ctx context.Context, dir fsops.Path, after string, limit int,
	disk func(context.Context, fsops.Path, string, int) (files.Page, error), shown func(fsops.Path) fsops.Path) (files.Page, error) {
	if len(p.written) == 0 {
		return disk(ctx, dir, after, limit)
	}
	page, err := disk(ctx, dir, "", 1<<30)
	if err != nil {
		return files.Page{}, err
	}
	all := map[string]files.Node{}
	for _, n := range page.Nodes {
		if w, ok := p.written[n.Path.Key()]; ok {
			n = w
		}
		if n.Kind == files.KindDir {
			holds, err := p.holds(ctx, n.Path)
			if err != nil {
				return files.Page{}, err
			}
			if !holds {
				continue
			}
		}
		if n.Exists() {
			all[n.Path.Key()] = n
		}
	}
	for _, n := range p.written {
		if !n.Exists() || !n.Path.Under(dir) {
			continue
		}
		if at := shown(n.Path); at.Key() != n.Path.Key() {
			n = files.Node{Path: at, Kind: files.KindDir, Mode: 0o755}
		}
		all[n.Path.Key()] = n
	}
	page.Nodes, page.More = page.Nodes[:0:0], false
	for key, n := range all {
		if key > after {
			page.Nodes = append(page.Nodes, n)
		}
	}
	slices.SortFunc(page.Nodes, func(a, b files.Node) int { return strings.Compare(a.Path.Key(), b.Path.Key()) })
	if len(page.Nodes) > limit {
		page.Nodes, page.More = page.Nodes[:limit], true
	}
	return page, nil
}

// Open implements [files.Tree]: also of a file that the update has written.
func (p *plan) Open(ctx context.Context, n files.Node) (files.Content, error) {
	if m, ok := p.made[n.Path.Key()]; ok && p.written[n.Path.Key()].Revision == n.Revision {
		return p.openMade(ctx, m)
	}
	return p.tree.Open(ctx, n)
}

// Load implements [files.Tree].
func (p *plan) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out, err := p.tree.Load(ctx, nodes...)
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		m, ok := p.made[n.Path.Key()]
		if !ok || p.written[n.Path.Key()].Revision != n.Revision {
			continue
		}
		content, err := p.openMade(ctx, m)
		if err != nil {
			return nil, err
		}
		out[i] = make([]byte, n.Size)
		_, err = io.ReadFull(files.NewReader(ctx, content, 0), out[i])
		if err := errors.Join(err, content.Close()); err != nil {
			return nil, diskError(err)
		}
	}
	return out, nil
}
