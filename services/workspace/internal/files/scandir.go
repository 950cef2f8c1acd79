package files

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gantry-agents/gantry/libs/fsops"
	"golang.org/x/text/unicode/norm"
)

// openDirs is a directory of a view, open in each of its layers.
type openDirs struct {
	path   fsops.Path
	dirs   []Dir // by layer, the bucket first; nil where the layer has no part in what is seen
	ignore *fsops.Ignore
	users  atomic.Int64
}

// openDirs opens a resolved directory.
func (v *View) openDirs(ctx context.Context, at place, ignore *fsops.Ignore) (*openDirs, error) {
	d := &openDirs{path: at.path, dirs: make([]Dir, len(at.active)), ignore: ignore}
	d.users.Store(1)
	for l, active := range at.active {
		if !active {
			continue
		}
		var err error
		if d.dirs[l], err = openDir(ctx, v.treeOf(v.layerOf(l)), at.path); err != nil {
			d.release()
			return nil, err
		}
	}
	return d, nil
}

func (d *openDirs) use() *openDirs {
	d.users.Add(1)
	return d
}

// release closes the directory after its last user.
func (d *openDirs) release() {
	if d == nil || d.users.Add(-1) > 0 {
		return
	}
	for _, dir := range d.dirs {
		if dir != nil {
			dir.Close()
		}
	}
}

// enter opens a directory in this one. What only some layers can open is read there; nil when none has it any more.
func (d *openDirs) enter(ctx context.Context, n *scanName) (*openDirs, error) {
	out := &openDirs{path: d.path.Join(n.name), dirs: make([]Dir, len(d.dirs)), ignore: d.ignore}
	out.users.Store(1)
	var failed error
	some := false
	for l, e := range n.dirs {
		if e.Name == "" || e.Link {
			continue
		}
		dir, err := d.dirs[l].OpenDir(ctx, e)
		out.dirs[l], some, failed = dir, some || dir != nil, errors.Join(failed, err)
	}
	if some {
		return out, nil
	}
	return nil, failed
}

// scanName is a name in a directory of a view.
type scanName struct {
	key    string // in NFC
	name   string // as spelled by the highest layer that has it
	isFile bool
	file   scanFile
	dirs   []DirEntry // the directories of that name, by layer
	// closed says that a file in a layer hides the directories of lower ones.
	closed bool
}

// scanFile is a file that is seen: which name of which layer.
type scanFile struct {
	entry DirEntry
	layer int
}

// names merges what the layers have in a directory, in the order of the paths of files: what is below a directory comes where "name/" does.
func (d *openDirs) names(ctx context.Context, whites []string, warn func(string)) ([]scanName, error) {
	var out []scanName
	at := map[string]int{} // by key; only used where a lower layer follows
	for l, dir := range d.dirs {
		if dir == nil {
			continue
		}
		entries, warnings, err := dir.Entries(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && !isGone(err) {
			warn(d.path.String() + ": " + publicText(err))
		}
		for _, w := range warnings {
			warn(w)
		}
		alone := len(out) == 0 && !slices.ContainsFunc(d.dirs[l+1:], func(lower Dir) bool { return lower != nil })
		if alone {
			out = make([]scanName, 0, len(entries))
		}
		for _, e := range entries {
			key := norm.NFC.String(e.Name)
			if l > 0 && len(whites) > 0 && hasKey(whites, d.path.Join(e.Name).Key()) {
				continue
			}
			i, known := 0, false
			if !alone {
				i, known = at[key]
			}
			if !known {
				i = len(out)
				out = append(out, scanName{key: key, name: e.Name, isFile: e.Kind == KindFile, file: scanFile{entry: e, layer: l}})
				if !alone {
					at[key] = i
				}
			}
			out[i].add(l, e, len(d.dirs))
		}
	}
	slices.SortFunc(out, func(a, b scanName) int { return a.compare(&b) })
	return out, nil
}

// add takes in what a layer has under the name, highest layer first.
func (n *scanName) add(layer int, e DirEntry, layers int) {
	switch {
	case n.closed:
	case e.Kind == KindFile:
		n.closed = true
	default:
		if n.dirs == nil {
			n.dirs = make([]DirEntry, layers)
		}
		n.dirs[layer] = e
	}
}

// compare orders names as the paths of files are ordered: as bytes, with the slash that follows a directory.
func (n *scanName) compare(m *scanName) int {
	if n.isFile && m.isFile {
		return strings.Compare(n.key, m.key)
	}
	common := min(len(n.key), len(m.key))
	if c := strings.Compare(n.key[:common], m.key[:common]); c != 0 {
		return c
	}
	return n.after(common) - m.after(common)
}

// after is the byte at a position of the key, with its slash; -1 after the end.
func (n *scanName) after(at int) int {
	switch {
	case at < len(n.key):
		return int(n.key[at])
	case !n.isFile:
		return '/'
	}
	return -1
}
