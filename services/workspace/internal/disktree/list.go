package disktree

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Children implements [files.Tree].
func (t *Tree) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return t.list(ctx, dir, after, limit, false)
}

// Below implements [files.Tree].
func (t *Tree) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return t.list(ctx, dir, after, limit, true)
}

// lister collects one page.
type lister struct {
	tree  *Tree
	after string
	limit int
	deep  bool
	page  files.Page
}

func (t *Tree) list(ctx context.Context, dir fsops.Path, after string, limit int, deep bool) (files.Page, error) {
	spelled, ok, err := t.Spell(dir)
	if err != nil || !ok {
		return files.Page{}, err
	}
	l := &lister{tree: t, after: after, limit: limit, deep: deep}
	err = l.dir(ctx, spelled, nil, 0)
	return l.page, err
}

// maxHandles bounds how many directories one listing holds open at once.
const maxHandles = 64

// item is what a directory contributes at a place in the order of keys: a name, or all that is below a directory.
type item struct {
	path  fsops.Path
	order string // the key, with a slash for what is below
	entry fs.DirEntry
}

// dir lists a directory. The handle is that of the directory, or nil to have it opened by its path, which costs more the deeper it lies.
func (l *lister) dir(ctx context.Context, dir fsops.Path, handle *os.Root, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var entries []fs.DirEntry
	var err error
	if handle == nil && depth < maxHandles {
		if handle, err = l.tree.root.OpenRoot(onDisk(dir)); err == nil {
			defer handle.Close()
		}
	}
	switch {
	case err != nil:
	case handle != nil:
		entries, err = readDir(handle, ".")
	default:
		entries, err = readDir(l.tree.root, onDisk(dir))
	}
	if err != nil {
		if dir.IsRoot() {
			return missing(pathError(dir, err))
		}
		l.warn(dir, pathError(dir, err))
		return nil
	}
	items := make([]item, 0, len(entries))
	for _, e := range entries {
		p := dir.Join(e.Name())
		if p.Reserved() || l.tree.visible != nil && !l.tree.visible(p) {
			continue
		}
		items = append(items, item{path: p, order: p.Key(), entry: e})
		if l.deep && e.IsDir() {
			items = append(items, item{path: p, order: p.Key() + "/"})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.order, b.order) })
	for i, it := range items {
		if l.page.More {
			return nil
		}
		switch {
		case it.entry == nil && it.path.Key()+"0" > l.after && l.after != files.AfterBelow(it.path):
			if err := l.below(ctx, it.path, handle, depth+1); err != nil {
				return err
			}
		case it.entry != nil && it.order > l.after:
			if i > 0 && items[i-1].order == it.order {
				l.warn(it.path, errHidden)
				continue
			}
			l.add(it)
		}
	}
	return nil
}

// below lists a directory in the directory of a handle.
func (l *lister) below(ctx context.Context, dir fsops.Path, parent *os.Root, depth int) error {
	if parent == nil || depth >= maxHandles {
		return l.dir(ctx, dir, nil, depth)
	}
	handle, err := parent.OpenRoot(dir.Name())
	if err != nil {
		if err := missing(pathError(dir, err)); err != nil {
			l.warn(dir, err)
		}
		return nil
	}
	defer handle.Close()
	return l.dir(ctx, dir, handle, depth)
}

// add takes an entry into the page, if it is a file or a directory.
func (l *lister) add(it item) {
	var info fs.FileInfo
	var err error
	if it.entry.Type()&fs.ModeSymlink != 0 {
		info, err = l.tree.root.Stat(it.path.String())
	} else {
		info, err = it.entry.Info()
	}
	if err != nil {
		if err := missing(pathError(it.path, err)); err != nil {
			l.warn(it.path, err)
		}
		return
	}
	if info.Mode()&fs.ModeType&^fs.ModeDir != 0 {
		return
	}
	if len(l.page.Nodes) == l.limit {
		l.page.More = true
		return
	}
	l.page.Nodes = append(l.page.Nodes, l.tree.describe(it.path, info))
}

// warn notes a place that could not be read.
func (l *lister) warn(p fsops.Path, err error) {
	const most = 20
	if len(l.page.Warnings) == most {
		return
	}
	l.page.Warnings = append(l.page.Warnings, warningOf(p, err))
}
