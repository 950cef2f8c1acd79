package files

import (
	"context"
	"errors"
	"io"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

// Scanner is a [Tree] of plain files that can be searched directory by directory, by many at once, without a look at the size, time or revision of any file. A search of
// the bucket goes this way when the bucket's tree is one; other trees below it are read through [Tree]. Optional.
type Scanner interface {
	Tree
	// OpenDir opens a directory for a search; nil when there is none.
	OpenDir(ctx context.Context, dir fsops.Path) (Dir, error)
}

// Dir is an open directory. Its methods may be called concurrently. What was opened from it is closed before it is.
type Dir interface {
	// Entries returns what the tree has here, in no order, and what could not be read, each with its reason.
	Entries(ctx context.Context) (entries []DirEntry, warnings []string, err error)
	// OpenDir opens a directory here that is no link; nil when it is gone.
	OpenDir(ctx context.Context, e DirEntry) (Dir, error)
	// OpenFile opens a file here, to be read once from its start; nil when it is gone.
	OpenFile(ctx context.Context, e DirEntry) (io.ReadCloser, error)
	io.Closer
}

// DirEntry is a name in a directory.
type DirEntry struct {
	// Name as spelled there.
	Name string
	// Kind of what it is, or leads to.
	Kind Kind
	// Link says that it is a link. A search does not enter directories by links.
	Link bool
}

// Searcher is a [Tree] that can say which files may hold a match, from an index that is of the same moment as its nodes. Optional: other trees are read whole.
type Searcher interface {
	Tree
	// Candidates is [Tree.Below] without directories, and without files that can't match the query.
	Candidates(ctx context.Context, dir fsops.Path, q trigram.Query, after string, limit int) (Page, error)
}

// openDir opens a directory of any tree.
func openDir(ctx context.Context, tree Tree, dir fsops.Path) (Dir, error) {
	if s, ok := tree.(Scanner); ok {
		return s.OpenDir(ctx, dir)
	}
	return &listedDir{tree: tree, path: dir}, nil
}

// listedDir is a directory of a tree that is no [Scanner].
type listedDir struct {
	tree Tree
	path fsops.Path
}

// Entries implements [Dir].
func (d *listedDir) Entries(ctx context.Context) (entries []DirEntry, warnings []string, err error) {
	for after := ""; ; {
		page, err := d.tree.Children(ctx, d.path, after, mergePage)
		if err != nil {
			return nil, nil, err
		}
		warnings = append(warnings, page.Warnings...)
		for _, n := range page.Nodes {
			after = n.Path.Key()
			entries = append(entries, DirEntry{Name: n.Path.Name(), Kind: n.Kind})
		}
		if !page.More || len(page.Nodes) == 0 {
			return entries, warnings, nil
		}
	}
}

// OpenDir implements [Dir].
func (d *listedDir) OpenDir(_ context.Context, e DirEntry) (Dir, error) {
	return &listedDir{tree: d.tree, path: d.path.Join(e.Name)}, nil
}

// OpenFile implements [Dir].
func (d *listedDir) OpenFile(ctx context.Context, e DirEntry) (io.ReadCloser, error) {
	const tries = 5
	for try := 1; ; try++ {
		nodes, err := d.tree.Get(ctx, d.path.Join(e.Name))
		if err != nil || nodes[0].Kind != KindFile {
			return nil, err
		}
		content, err := d.tree.Open(ctx, nodes[0])
		if err == nil {
			return &contentFile{Reader: NewReader(ctx, content, 0), Closer: content}, nil
		}
		if !errors.Is(err, ErrChanged) || try == tries {
			return nil, err
		}
	}
}

// Close implements [Dir].
func (d *listedDir) Close() error { return nil }

type contentFile struct {
	io.Reader
	io.Closer
}
