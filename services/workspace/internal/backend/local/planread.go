package local

import (
	"context"
	"os"
	"path/filepath"
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
		if !out[i].Exists() && p.makes(path) {
			out[i] = files.Node{Path: path, Kind: files.KindDir, Mode: 0o755}
		}
	}
	return out, nil
}

// makes says whether the update has written something below a directory.
func (p *plan) makes(dir fsops.Path) bool {
	for _, n := range p.written {
		if n.Exists() && n.Path.Under(dir) {
			return true
		}
	}
	return false
}

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
	for _, s := range p.steps {
		if s.Op == opPut && s.Node.Revision == n.Revision {
			f, err := os.Open(filepath.Join(p.store.stage, s.Staged))
			if err != nil {
				return nil, diskError(err)
			}
			return stagedContent{f, n.Size}, nil
		}
	}
	return p.tree.Open(ctx, n)
}

type stagedContent struct {
	*os.File
	size int64
}

func (c stagedContent) Size() int64 { return c.size }
