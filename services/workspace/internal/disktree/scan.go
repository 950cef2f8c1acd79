package disktree

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"golang.org/x/text/unicode/norm"
)

var _ files.Scanner = (*Tree)(nil)

// OpenDir implements [files.Scanner].
func (t *Tree) OpenDir(ctx context.Context, dir fsops.Path) (files.Dir, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !dir.IsRoot() && !t.sees(dir) {
		return nil, nil
	}
	spelled, ok, err := t.Spell(dir)
	if err != nil || !ok {
		return nil, err
	}
	f, err := openDirectory(t.root, onDisk(spelled))
	if err != nil {
		return nil, missing(pathError(dir, err))
	}
	return &scanDir{tree: t, path: spelled, file: f, fd: int(f.Fd())}, nil
}

// scanDir is an open directory. Names in it that are no links are opened by its handle, so the path to them is not walked again, and no link can be followed.
type scanDir struct {
	tree  *Tree
	path  fsops.Path
	file  *os.File // nil when it lies so deep that it is opened by its path
	fd    int      // of file
	depth int
}

// Close implements [files.Dir].
func (d *scanDir) Close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// Entries implements [files.Dir].
func (d *scanDir) Entries(ctx context.Context) ([]files.DirEntry, []string, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	list, err := d.read()
	if err != nil {
		return nil, nil, pathError(d.path, err)
	}
	out := make([]files.DirEntry, 0, len(list))
	var warnings []string
	var forms map[string]bool // names beyond ASCII in NFC
	for _, e := range list {
		p := fsops.Path{}
		if d.path.IsRoot() || d.tree.visible != nil || e.Type()&fs.ModeSymlink != 0 {
			p = d.path.Join(e.Name())
			if p.Reserved() || d.tree.visible != nil && !d.tree.visible(p) {
				continue
			}
		}
		entry, warning := d.entry(e, p)
		if warning != "" {
			warnings = append(warnings, warning)
		}
		if entry.Kind == files.KindNone {
			continue
		}
		if !isASCII(entry.Name) {
			if forms == nil {
				forms = map[string]bool{}
			}
			key := norm.NFC.String(entry.Name)
			if forms[key] {
				warnings = append(warnings, warningOf(d.path.Join(entry.Name), errHidden))
				continue
			}
			forms[key] = true
		}
		out = append(out, entry)
	}
	return out, warnings, nil
}

var errHidden = fmt.Errorf("the same name in another normal form hides it")

func (d *scanDir) read() ([]fs.DirEntry, error) {
	if d.file == nil {
		return readDir(d.tree.root, onDisk(d.path))
	}
	return d.file.ReadDir(-1)
}

// entry says what a name is: KindNone for what is not part of the tree.
func (d *scanDir) entry(e fs.DirEntry, p fsops.Path) (files.DirEntry, string) {
	out := files.DirEntry{Name: e.Name()}
	mode := e.Type()
	if mode&fs.ModeSymlink != 0 {
		out.Link = true
		info, err := d.tree.root.Stat(p.String())
		if err != nil {
			if err := missing(pathError(p, err)); err != nil {
				return out, warningOf(p, err)
			}
			return out, ""
		}
		mode = info.Mode().Type()
	}
	switch {
	case mode.IsDir():
		out.Kind = files.KindDir
	case mode.IsRegular():
		out.Kind = files.KindFile
	}
	return out, ""
}

// OpenDir implements [files.Dir].
func (d *scanDir) OpenDir(ctx context.Context, e files.DirEntry) (files.Dir, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &scanDir{tree: d.tree, path: d.path.Join(e.Name), depth: d.depth + 1}
	if d.file == nil || d.depth >= maxHandles {
		return out, nil
	}
	file, err := openDirIn(d.fd, e.Name)
	if err != nil {
		return nil, missing(pathError(out.path, err))
	}
	out.file, out.fd = file, int(file.Fd())
	return out, nil
}

// OpenFile implements [files.Dir].
func (d *scanDir) OpenFile(ctx context.Context, e files.DirEntry) (io.ReadCloser, error) {
	if d.file != nil && !e.Link {
		f, err := openFileIn(d.fd, e.Name)
		if err != nil {
			return nil, missing(pathError(d.path.Join(e.Name), err))
		}
		return f, nil
	}
	content, err := d.tree.Open(ctx, files.Node{Path: d.path.Join(e.Name)})
	if err != nil {
		return nil, missing(err)
	}
	return content.(io.ReadCloser), nil
}

func warningOf(p fsops.Path, err error) string {
	text := err.Error()
	if known, ok := err.(*errdefs.Error); ok {
		text = known.Public()
	}
	name, _ := fsops.Text(p.String())
	return name + ": " + text
}
