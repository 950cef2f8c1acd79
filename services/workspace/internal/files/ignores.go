package files

import (
	"context"
	"errors"
	"io"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// ignores knows what the .gitignore files of a view exclude below a directory. Files above it count; that the directory itself is excluded does not, since it was asked for.
type ignores struct {
	view  *View
	base  fsops.Path
	rules map[string]*fsops.Ignore // by directory; nil: the directory is excluded
}

func newIgnores(v *View, base fsops.Path) *ignores {
	return &ignores{view: v, base: base, rules: map[string]*fsops.Ignore{}}
}

// learn reads the .gitignore files of directories and of those above, at once, each only once.
func (g *ignores) learn(ctx context.Context, dirs ...fsops.Path) error {
	var unknown []fsops.Path // parents first
	listed := map[string]bool{}
	for _, dir := range dirs {
		for _, d := range append(append([]fsops.Path{{}}, dir.Ancestors()...), dir) {
			if _, known := g.rules[d.Key()]; !known && !listed[d.Key()] {
				listed[d.Key()] = true
				unknown = append(unknown, d)
			}
		}
	}
	contents, err := g.view.ignoreFiles(ctx, unknown)
	if err != nil {
		return err
	}
	for i, dir := range unknown {
		above := &fsops.Ignore{}
		if !dir.IsRoot() {
			above = g.rules[dir.Parent().Key()]
			if above == nil || above.Ignored(dir, true) && dir.Under(g.base) {
				g.rules[dir.Key()] = nil
				continue
			}
		}
		if contents[i] != nil {
			above = above.With(dir, contents[i])
		}
		g.rules[dir.Key()] = above
	}
	return nil
}

// learnAhead is learn for a directory and those of the nodes that a merge has fetched.
func (g *ignores) learnAhead(ctx context.Context, m *merge, dir fsops.Path) error {
	if _, known := g.rules[dir.Key()]; known {
		return nil
	}
	dirs := []fsops.Path{dir}
	for _, s := range m.streams {
		if s == nil {
			continue
		}
		for _, n := range s.nodes {
			if parent := n.Path.Parent(); parent.Key() != dirs[len(dirs)-1].Key() {
				dirs = append(dirs, parent)
			}
		}
	}
	return g.learn(ctx, dirs...)
}

// of returns the rules for what is in a directory that was learned; nil where g is.
func (g *ignores) of(dir fsops.Path) *fsops.Ignore {
	if g == nil {
		return nil
	}
	// What the directory's own file says is read again by a scan; saying it twice changes nothing.
	return g.rules[dir.Key()]
}

// excludes says whether a directory that was learned is excluded.
func (g *ignores) excludes(dir fsops.Path) bool { return g.rules[dir.Key()] == nil }

// excluded says whether an entry is excluded, and the highest directory that is; the root when none is.
func (g *ignores) excluded(e Entry) (dir fsops.Path, excluded bool) {
	parent := e.Path.Parent()
	if rules := g.rules[parent.Key()]; rules != nil {
		excluded = rules.Ignored(e.Path, e.Kind == KindDir)
		if excluded && e.Kind == KindDir {
			dir = e.Path
		}
		return dir, excluded
	}
	for dir = parent; g.excludes(dir.Parent()); {
		dir = dir.Parent()
	}
	return dir, true
}

// ignoreFiles returns the content of the .gitignore that is seen in each directory; nil where there is none.
func (v *View) ignoreFiles(ctx context.Context, dirs []fsops.Path) ([][]byte, error) {
	out := make([][]byte, len(dirs))
	paths := make([]fsops.Path, len(dirs))
	for i, dir := range dirs {
		paths[i] = dir.Join(fsops.IgnoreFile)
	}
	taken := make([]bool, len(dirs)) // by a higher layer
	for l := range 1 + len(v.lower) {
		tree := v.treeOf(v.layerOf(l))
		nodes, err := tree.Get(ctx, paths...)
		if err != nil {
			return nil, err
		}
		var load []Node
		var at []int
		for i, n := range nodes {
			if taken[i] || !n.Exists() {
				continue
			}
			taken[i] = true
			if l > 0 {
				seen, err := v.walk(ctx, v.own, paths[i])
				if err != nil {
					return nil, err
				}
				if seen.entry.Layer != v.layerOf(l) {
					continue
				}
			}
			switch {
			case n.Kind == KindFile && n.Size <= smallFile:
				load, at = append(load, n), append(at, i)
			case n.Kind == KindFile:
				if out[i], err = head(ctx, tree, n, fsops.MaxIgnoreBytes); err != nil {
					return nil, err
				}
			}
		}
		if len(load) == 0 {
			continue
		}
		contents, err := tree.Load(ctx, load...)
		if err != nil {
			return nil, err
		}
		for i, content := range contents {
			out[at[i]] = content
		}
	}
	return out, nil
}

// head returns the first bytes of a file; nil when it is gone or has changed meanwhile.
func head(ctx context.Context, tree Tree, n Node, size int64) ([]byte, error) {
	content, err := tree.Open(ctx, n)
	if isGone(err) || errors.Is(err, ErrChanged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(io.LimitReader(NewReader(ctx, content, 0), size))
}
