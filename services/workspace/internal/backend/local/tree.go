package local

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// tree reads a space: what the disk has, with what the index knows about it.
type tree struct {
	store *Store
	space files.Space
}

// detail is what the index keeps about a file beside the node.
type detail struct {
	// Signature of the file when it was written.
	Signature string
	// Hash is the state of its SHA-256, by which an append goes on.
	Hash []byte
	// Path where the file is.
	Path string
}

func (d detail) encode() []byte {
	out, _ := json.Marshal(d) // a struct of text and bytes always encodes
	return out
}

// Space implements [files.Store].
func (s *Store) Space(space files.Space) files.Own { return &tree{store: s, space: space} }

// disk passes the tree of the directory to f, or nil when there is none.
func (t *tree) disk(f func(*disktree.Tree) error) error {
	if err := t.store.open(); err != nil {
		return err
	}
	root, err := t.store.root(t.space, false)
	if err != nil || root == nil {
		return err
	}
	defer root.Close()
	return f(disktree.New(root, nil))
}

// Get implements [files.Tree].
func (t *tree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	out := make([]files.Node, len(paths))
	for i, p := range paths {
		if p.IsRoot() {
			out[i] = files.Node{Kind: files.KindDir, Mode: 0o755}
		}
	}
	err := t.disk(func(d *disktree.Tree) (err error) {
		if out, err = d.Get(ctx, paths...); err == nil {
			err = t.enrich(ctx, out)
		}
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// enrich adds what the index knows about files that are still as they were written.
func (t *tree) enrich(ctx context.Context, nodes []files.Node) error {
	keys := make([]string, 0, len(nodes))
	for _, n := range nodes {
		if n.Kind == files.KindFile {
			if _, wrong := fsops.Text(n.Path.Key()); !wrong {
				keys = append(keys, n.Path.Key())
			}
		}
	}
	known, err := t.store.index.Known(ctx, t.space, keys)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		if k, ok := known[n.Path.Key()]; ok && n.Kind == files.KindFile && signatureOf(k) == n.Ref {
			nodes[i].Revision, nodes[i].SHA256, nodes[i].Author = k.Node.Revision, k.Node.SHA256, k.Node.Author
		}
	}
	return nil
}

func detailOf(k sqlstore.Known) detail {
	var d detail
	if json.Unmarshal(k.Detail, &d) != nil {
		return detail{}
	}
	return d
}

func signatureOf(k sqlstore.Known) string { return detailOf(k).Signature }

// Children implements [files.Tree].
func (t *tree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (page files.Page, err error) {
	err = t.disk(func(d *disktree.Tree) (err error) {
		if page, err = d.Children(ctx, dir, after, limit); err == nil {
			err = t.enrich(ctx, page.Nodes)
		}
		return err
	})
	return page, err
}

// Below implements [files.Tree].
func (t *tree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (page files.Page, err error) {
	err = t.disk(func(d *disktree.Tree) (err error) {
		if page, err = d.Below(ctx, dir, after, limit); err == nil {
			err = t.enrich(ctx, page.Nodes)
		}
		return err
	})
	return page, err
}

// Open implements [files.Tree].
func (t *tree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	if strings.HasPrefix(n.Ref, keptMark) {
		return t.openKept(ctx, n)
	}
	var content files.Content
	err := t.disk(func(d *disktree.Tree) (err error) {
		content, err = d.Open(ctx, n)
		return err
	})
	if err == nil && content == nil {
		err = fsops.ErrNotFound(n.Path.String())
	}
	return content, err
}

// Load implements [files.Tree].
func (t *tree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out := make([][]byte, len(nodes))
	others, at, err := t.loadKept(ctx, nodes, out)
	if err != nil || len(others) == 0 {
		return out, err
	}
	err = t.disk(func(d *disktree.Tree) error {
		loaded, err := d.Load(ctx, others...)
		for i, data := range loaded {
			out[at[i]] = data
		}
		return err
	})
	return out, err
}

// OpenDir implements [files.Scanner].
func (t *tree) OpenDir(ctx context.Context, dir fsops.Path) (files.Dir, error) {
	if err := t.store.open(); err != nil {
		return nil, err
	}
	root, err := t.store.root(t.space, false)
	if err != nil || root == nil {
		return nil, err
	}
	opened, err := disktree.New(root, nil).OpenDir(ctx, dir)
	if err != nil || opened == nil {
		return nil, errors.Join(err, root.Close())
	}
	return rooted{Dir: opened, root: root}, nil
}

// rooted is a directory that holds the handle of its root open: what is opened from it needs that.
type rooted struct {
	files.Dir
	root *os.Root
}

// Close implements [files.Dir].
func (d rooted) Close() error { return errors.Join(d.Dir.Close(), d.root.Close()) }

// Whiteouts implements [files.Own].
func (t *tree) Whiteouts(ctx context.Context) ([]string, error) {
	return t.store.index.Space(t.space).Whiteouts(ctx)
}
