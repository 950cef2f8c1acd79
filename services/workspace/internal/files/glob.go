package files

import (
	"context"
	"errors"
	"strconv"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Glob is a pattern and where to begin.
type Glob struct {
	Pattern     *fsops.Glob
	Text        string // of the pattern, which binds page tokens
	Dir         fsops.Path
	Ignored     bool // also what .gitignore files exclude
	Directories bool
	Allowed     func(fsops.Path) bool // nil: every path
}

// Glob returns a page of what matches, in the order of paths.
func (v *View) Glob(ctx context.Context, g Glob, size int, token string) (Listing, error) {
	request := []string{"glob", string(v.space), g.Dir.Key(), g.Text, strconv.FormatBool(g.Ignored), strconv.FormatBool(g.Directories)}
	after, err := fsops.PageAfter(token, request...)
	if err != nil {
		return Listing{}, err
	}
	at, err := v.seeDir(ctx, g.Dir)
	if err != nil {
		return Listing{}, err
	}
	w, err := v.newSearch(ctx, at, g.Pattern, g.Ignored, g.Allowed, after)
	if err != nil || w == nil {
		return Listing{}, err
	}
	var failed error
	out, err := w.merge.page(ctx, size, request, func(e Entry) bool {
		if e.Kind == KindDir && !g.Directories {
			return false
		}
		keep, err := w.wanted(ctx, e)
		failed = errors.Join(failed, err)
		return keep
	})
	return out, errors.Join(err, failed)
}

// walker walks what a search may look at.
type walker struct {
	view    *View
	base    fsops.Path
	merge   *merge
	glob    *fsops.Glob // nil: everything
	ignored bool
	allowed func(fsops.Path) bool
	ignore  fsops.Ignore
	rules   map[string]bool // directories whose .gitignore was read; true: what is below is excluded
}

// newSearch begins a walk below a directory; nil when nothing can match.
func (v *View) newSearch(ctx context.Context, base place, glob *fsops.Glob, ignored bool, allowed func(fsops.Path) bool, after string) (*walker, error) {
	w := &walker{view: v, base: base.path, glob: glob, ignored: ignored, allowed: allowed, rules: map[string]bool{}}
	start := base
	if glob != nil && !glob.Prefix().IsRoot() {
		var err error
		if start, err = v.resolve(ctx, v.own, base.path.Join(glob.Prefix().String())); err != nil || start.entry.Kind != KindDir {
			return nil, err
		}
	}
	w.merge = v.merge(v.own, start, true, after)
	return w, nil
}

// wanted says whether an entry is part of the search.
func (w *walker) wanted(ctx context.Context, e Entry) (bool, error) {
	if w.glob != nil && !w.glob.Match(e.Path.Rebase(w.base, fsops.Path{})) {
		return false, nil
	}
	if w.allowed != nil && !w.allowed(e.Path) {
		return false, nil
	}
	if w.ignored {
		return true, nil
	}
	excluded, err := w.excludedBelow(ctx, e.Path.Parent())
	return err == nil && !excluded && !w.ignore.Ignored(e.Path, e.Kind == KindDir), err
}

// excludedBelow says whether a directory is excluded, or one above it. It reads the .gitignore files on the way, each once.
func (w *walker) excludedBelow(ctx context.Context, dir fsops.Path) (bool, error) {
	if excluded, known := w.rules[dir.Key()]; known {
		return excluded, nil
	}
	if !dir.IsRoot() {
		excluded, err := w.excludedBelow(ctx, dir.Parent())
		if err != nil {
			return false, err
		}
		if excluded || w.ignore.Ignored(dir, true) {
			w.rules[dir.Key()] = true
			return true, nil
		}
	}
	w.rules[dir.Key()] = false
	at, err := w.view.walk(ctx, w.view.own, dir.Join(fsops.IgnoreFile))
	if err != nil || at.entry.Kind != KindFile {
		return false, err
	}
	data, err := at.tree.Load(ctx, at.entry.Node)
	if err == nil && data[0] != nil {
		w.ignore.Add(dir, data[0])
	}
	return false, err
}
