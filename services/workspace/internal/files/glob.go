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

// Glob returns a page of what matches, in the order of paths. The next page goes on from there.
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
	w, err := v.newSearch(ctx, at, g.Pattern, g.Ignored, g.Allowed)
	if err != nil || w == nil {
		return Listing{}, err
	}
	m := v.merge(v.own, w.start, true, after)
	var failed error
	out, err := m.page(ctx, size, request, func(e Entry) bool {
		keep, err := w.wanted(ctx, m, e)
		failed = errors.Join(failed, err)
		return keep && (e.Kind == KindFile || g.Directories)
	})
	return out, errors.Join(err, failed)
}

// walker says what a search looks at.
type walker struct {
	base    fsops.Path  // of the pattern
	start   place       // below which all matches lie
	glob    *fsops.Glob // nil: everything
	allowed func(fsops.Path) bool
	ignores *ignores // nil: nothing is excluded
}

// newSearch begins a search below a directory; nil when nothing can match.
func (v *View) newSearch(ctx context.Context, base place, glob *fsops.Glob, ignored bool, allowed func(fsops.Path) bool) (*walker, error) {
	w := &walker{base: base.path, start: base, glob: glob, allowed: allowed}
	if glob != nil && !glob.Prefix().IsRoot() {
		var err error
		if w.start, err = v.resolve(ctx, v.own, base.path.Join(glob.Prefix().String())); err != nil || w.start.entry.Kind != KindDir {
			return nil, err
		}
	}
	if ignored {
		return w, nil
	}
	w.ignores = newIgnores(v, base.path)
	if err := w.ignores.learn(ctx, w.start.path); err != nil || w.ignores.excludes(w.start.path) {
		return nil, err
	}
	return w, nil
}

// wanted says whether an entry that a merge gave is part of the search. Below a directory that is excluded, or where nothing can match, the merge is not to look.
func (w *walker) wanted(ctx context.Context, m *merge, e Entry) (bool, error) {
	if w.ignores != nil {
		if err := w.ignores.learnAhead(ctx, m, e.Path.Parent()); err != nil {
			return false, err
		}
		if dir, excluded := w.ignores.excluded(e); excluded {
			if !dir.IsRoot() {
				m.skip(dir)
			}
			return false, nil
		}
	}
	if w.glob != nil {
		path := e.Path.Rebase(w.base, fsops.Path{})
		if !w.glob.Match(path) {
			if parent := path.Parent(); !parent.IsRoot() && !w.glob.MayMatchBelow(parent) {
				m.skip(e.Path.Parent())
			}
			return false, nil
		}
	}
	return w.allowed == nil || w.allowed(e.Path), nil
}
