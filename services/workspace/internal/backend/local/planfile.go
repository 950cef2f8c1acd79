package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// made is where the content of a file is that an update has written so far: what a file of the disk holds, if anything, and then what is staged, if anything.
type made struct {
	step    int        // the last step about the file
	origin  files.Node // on the disk, where it is now
	on      diskFile   // what is known of it
	staged  *staged
	renamed bool // the step is a rename
}

// replaceable says whether the step may be changed for what comes later; whole, whether it is all there is to the file. Both are false for nil.
func (m *made) replaceable() bool { return m != nil && !m.renamed }
func (m *made) whole() bool       { return m != nil && !m.origin.Exists() }

// diskFile is a file as the disk has it before the update: what the history needs to know.
type diskFile struct {
	node    files.Node
	inode   uint64
	content int64 // in the index; 0: it does not know the file
	keep    bool  // the content goes into the history when the file does
	hash    []byte
}

// kept is the content to be kept when the file is replaced, 0 for none.
func (o diskFile) kept() int64 {
	if o.keep {
		return o.content
	}
	return 0
}

// look finds out about the file of the disk that a node is, or is made of. The zero diskFile for a node that is not there, or of which nothing is on the disk yet. A file that was
// changed outside is noticed first: as it is now, it is a revision like others. goesOn: its hash is needed, for an append or a move.
func (p *plan) look(ctx context.Context, n files.Node, goesOn bool) (diskFile, error) {
	if n.Kind != files.KindFile {
		return diskFile{}, nil
	}
	if m := p.made[n.Path.Key()]; m != nil {
		return m.on, nil
	}
	past, err := p.store.index.Past(ctx, p.space, n.Path)
	if err != nil {
		return diskFile{}, err
	}
	d := detailOf(past.Known)
	out := diskFile{node: n, inode: inodeOf(n.Ref), content: past.Content, hash: d.Hash}
	out.keep = p.store.cfg.History.Keeps(n) || past.Shared
	if d.Signature == n.Ref && len(d.Hash) > 0 {
		return out, nil
	}
	out.keep = p.store.cfg.History.Keeps(n)
	if !out.keep && !goesOn {
		return out, nil
	}
	if n.SHA256, out.hash, err = p.sum(ctx, n); err != nil {
		return diskFile{}, err
	}
	out.content = 0
	if out.keep {
		if out.content, err = p.store.index.Reserve(ctx); err != nil {
			return diskFile{}, err
		}
	}
	p.steps = append(p.steps, step{Op: opNotice, Path: n.Path, Node: n, Hash: out.hash, Content: out.content})
	return out, nil
}

// sum reads a file for its SHA-256 and the state of it.
func (p *plan) sum(ctx context.Context, n files.Node) (string, []byte, error) {
	content, err := p.tree.Open(ctx, n)
	if err != nil {
		return "", nil, err
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, files.NewReader(ctx, content, 0)); err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(h.Sum(nil)), hashState(h), nil
}

// set notes a file that the update has written, and unset one that it has taken away.
func (p *plan) set(n files.Node, m *made) {
	key := n.Path.Key()
	if !p.written[key].Exists() {
		for _, dir := range n.Path.Ancestors() {
			p.dirs[dir.Key()]++
		}
	}
	p.written[key], p.made[key] = n, m
}

func (p *plan) unset(path fsops.Path) {
	if p.written[path.Key()].Exists() {
		for _, dir := range path.Ancestors() {
			p.dirs[dir.Key()]--
		}
	}
	for _, dir := range path.Ancestors() {
		p.left[dir.Key()] = true
	}
	p.written[path.Key()] = files.Node{}
	delete(p.made, path.Key())
}

// holds says whether a file is below a directory of the disk, with what the update has done so far: it may have taken the last one away.
func (p *plan) holds(ctx context.Context, dir fsops.Path) (bool, error) {
	if !p.left[dir.Key()] || p.dirs[dir.Key()] > 0 {
		return true, nil
	}
	for after := ""; ; {
		page, err := p.tree.Below(ctx, dir, after, scanPage)
		if err != nil {
			return false, err
		}
		for _, n := range page.Nodes {
			after = n.Path.Key()
			if w, ok := p.written[after]; n.Kind == files.KindFile && (!ok || w.Exists()) {
				return true, nil
			}
		}
		if !page.More || len(page.Nodes) == 0 {
			return false, nil
		}
	}
}

// takeBack undoes the step that wrote a file, but for the file that it found there, which is removed. False when the update did not write it.
func (p *plan) takeBack(path fsops.Path) bool {
	m := p.made[path.Key()]
	if !m.replaceable() {
		return false
	}
	st := p.steps[m.step]
	p.steps[m.step] = step{Op: opNothing}
	if st.KeepInode != 0 {
		p.steps[m.step] = step{Op: opRemove, Path: st.Path, Inode: st.KeepInode, Keep: st.Keep, KeepInode: st.KeepInode}
	}
	p.unused = append(p.unused, m.staged)
	p.unset(path)
	return true
}

// putElsewhere moves a file of which nothing is on the disk yet.
func (p *plan) putElsewhere(ctx context.Context, m *made, from, to files.Node) error {
	p.takeBack(from.Path)
	p.unused = p.unused[:len(p.unused)-1] // its content goes on
	p.count(from, files.Node{})
	old, err := p.one(ctx, to.Path)
	if err != nil {
		return err
	}
	return p.put(ctx, old, to, m.staged)
}

// extend adds content to what a step of this update writes or adds.
func (p *plan) extend(ctx context.Context, m *made, n files.Node, more *staged, hash []byte) error {
	var parts []io.Reader
	for _, s := range []*staged{m.staged, more} {
		f, err := os.Open(s.path())
		if err != nil {
			return diskError(err)
		}
		defer f.Close()
		parts = append(parts, f)
	}
	joined, err := p.store.Stage(ctx, io.MultiReader(parts...), 0)
	if err != nil {
		return err
	}
	both := joined.(*staged)
	both.taken = true
	p.joined = append(p.joined, both)
	p.unused = append(p.unused, m.staged, more)
	st := &p.steps[m.step]
	st.Staged, st.Node, st.Hash = both.name, n, hash
	p.set(n, &made{step: m.step, origin: m.origin, on: m.on, staged: both})
	return nil
}

func readInto(w io.Writer, s *staged) error {
	f, err := os.Open(s.path())
	if err != nil {
		return diskError(err)
	}
	_, err = io.Copy(w, f)
	return diskError(errors.Join(err, f.Close()))
}

// openMade opens a file that the update has written.
func (p *plan) openMade(ctx context.Context, m *made) (files.Content, error) {
	var out joined
	if m.origin.Exists() {
		c, err := p.tree.Open(ctx, m.origin)
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, c)
	}
	if m.staged != nil {
		f, err := os.Open(m.staged.path())
		if err != nil {
			return nil, errors.Join(diskError(err), out.Close())
		}
		out.parts = append(out.parts, prefix{File: f, size: m.staged.size})
	}
	return out, nil
}

// joined is contents one after another.
type joined struct{ parts []files.Content }

// Size implements [files.Content].
func (j joined) Size() (size int64) {
	for _, c := range j.parts {
		size += c.Size()
	}
	return size
}

// ReadAt implements [io.ReaderAt].
func (j joined) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for _, c := range j.parts {
		if off < c.Size() && n < len(b) {
			part := b[n:min(int64(len(b)), int64(n)+c.Size()-off)]
			got, err := c.ReadAt(part, off)
			if n += got; got < len(part) {
				return n, err
			}
			off += int64(got)
		}
		off -= c.Size()
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer].
func (j joined) Close() error {
	var errs []error
	for _, c := range j.parts {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
