package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const (
	// maxWalk bounds the entries that one request looks at.
	maxWalk = 500_000
	// maxWarnings bounds the notes about places that could not be read.
	maxWarnings = 20
)

// walker collects entries below a directory, sorted by the bytes of their paths. Links are shown as what they lead to, when that is inside; they are
// not walked into, so a link to a parent ends nowhere.
type walker struct {
	in          *inside
	recursive   bool
	all         bool // also ignored ones
	directories bool
	prune       func(dir fsops.Path) bool // true: nothing below is wanted
	match       func(fsops.Path) bool
	ignore      fsops.Ignore

	found    []sandbox.Entry
	warnings []string
	seen     int
}

func (w *walker) walk(ctx context.Context, dir fsops.Path) error {
	if !w.all {
		for _, d := range append(dir.Ancestors(), fsops.Path{}, dir) {
			w.loadIgnore(ctx, d)
		}
	}
	if err := w.dir(ctx, dir, true); err != nil {
		return err
	}
	slices.SortFunc(w.found, func(a, b sandbox.Entry) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

func (w *walker) dir(ctx context.Context, dir fsops.Path, top bool) error {
	list, err := w.in.ReadDir(ctx, dir.String(), "", 0)
	if err != nil {
		if top || ctx.Err() != nil {
			return err
		}
		w.warn(dir.String(), err)
		return nil
	}
	for _, e := range list {
		if w.seen++; w.seen > maxWalk {
			return errdefs.New(errdefs.ErrResourceExhausted, fsops.Domain, fsops.ReasonTooLarge, "there are more than %d entries below; name a directory further down", maxWalk)
		}
		if err := w.entry(ctx, dir, e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(ctx context.Context, dir fsops.Path, e sandbox.Entry) error {
	p := fsops.PathOf(e.Path)
	linked := e.Kind == fs.ModeSymlink
	if linked {
		to, err := w.in.Tree.Stat(ctx, e.Path)
		if err != nil {
			return ctx.Err() // it leads out, or nowhere: nothing that a caller could use
		}
		to.Path = e.Path
		e = to
	}
	isDir := e.Kind == fs.ModeDir
	if e.Kind != 0 && !isDir || !w.all && w.ignore.Ignored(p, isDir) {
		return nil
	}
	if (!isDir || w.directories) && (w.match == nil || w.match(p)) {
		w.found = append(w.found, e)
	}
	if !isDir || linked || !w.recursive || w.prune != nil && w.prune(p) {
		return nil
	}
	if !w.all {
		w.loadIgnore(ctx, p)
	}
	return w.dir(ctx, p, false)
}

// loadIgnore reads the ignore file of a directory, if there is one.
func (w *walker) loadIgnore(ctx context.Context, dir fsops.Path) {
	f, err := w.in.Tree.Open(ctx, dir.Join(fsops.IgnoreFile).String())
	if err != nil {
		return
	}
	defer f.Close()
	if text, err := io.ReadAll(io.LimitReader(f, fsops.MaxIgnoreBytes)); err == nil {
		w.ignore.Add(dir, text)
	}
}

func (w *walker) warn(path string, err error) {
	if len(w.warnings) < maxWarnings {
		text, _ := fsops.Text(path)
		w.warnings = append(w.warnings, fmt.Sprintf("%s: %s", text, public(err)))
	}
}

// public is the part of an error that callers may see.
func public(err error) string {
	var e *errdefs.Error
	if errors.As(err, &e) {
		return e.Public()
	}
	return "could not be read"
}
