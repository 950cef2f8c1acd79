package local

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// plan is what an update is going to do. Nothing is done before its function has returned.
type plan struct {
	tree
	now     time.Time
	usage   files.Usage
	steps   []step
	changes []files.Change
	took    []*staged
	unused  []*staged // taken over and needed no more
	joined  []*staged // made of others by this update
	whites  []string
	// written are files as they will be, by key; the zero node for one that will be gone. made tells where their content is, and dirs how many there are below a directory.
	written map[string]files.Node
	made    map[string]*made
	dirs    map[string]int
	left    map[string]bool // directories below which it has taken something away
}

var _ files.Tx = (*plan)(nil)

func (s *Store) newPlan(ctx context.Context, space files.Space) (*plan, error) {
	p := &plan{tree: tree{store: s, space: space}, now: s.now().UTC().Truncate(time.Microsecond), written: map[string]files.Node{}, made: map[string]*made{}, dirs: map[string]int{}, left: map[string]bool{}}
	var err error
	if p.usage, err = s.index.Usage(ctx, space); err != nil {
		return nil, err
	}
	p.whites, err = p.tree.Whiteouts(ctx)
	return p, err
}

// newRevision gives out a revision that no one had before: the time, made strictly increasing.
func (s *Store) newRevision(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = max(now.UnixNano(), s.revision+1)
	return "l" + strconv.FormatInt(s.revision, 36)
}

// takeOver marks staged content as this update's.
func (p *plan) takeOver(from files.Staged) (*staged, error) {
	s, ok := from.(*staged)
	if !ok || s.store != p.store {
		return nil, errors.New("content was staged in another store")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return nil, errors.New("content was taken over already")
	}
	s.taken = true
	p.took = append(p.took, s)
	return s, nil
}

// giveBack leaves staged content to whoever staged it.
func (p *plan) giveBack() {
	for _, s := range p.joined {
		_ = os.Remove(s.path()) // what stays behind is cleared at the next start
	}
	for _, s := range p.took {
		s.mu.Lock()
		s.taken = false
		s.mu.Unlock()
	}
}

// discardUnused removes content that the update took over and made needless.
func (p *plan) discardUnused() {
	for _, s := range p.unused {
		_ = os.Remove(s.path()) // what stays behind is cleared at the next start
	}
}

// Put implements [files.Tx].
func (p *plan) Put(ctx context.Context, f files.File) (files.Node, error) {
	if err := fits(f.Path); err != nil {
		return files.Node{}, err
	}
	old, err := p.one(ctx, f.Path)
	if err != nil {
		return files.Node{}, err
	}
	content, err := p.takeOver(f.Content)
	if err != nil {
		return files.Node{}, err
	}
	n := files.Node{
		Path: f.Path, Kind: files.KindFile, Size: content.size, SHA256: content.sum, Mode: f.Mode, Author: f.Author,
		ModTime: f.ModTime.UTC().Truncate(time.Microsecond), Revision: p.store.newRevision(p.now),
	}
	if f.ModTime.IsZero() {
		n.ModTime = p.now
	}
	return n, p.put(ctx, old, n, content)
}

// put plans a file of new content in the place of what is there.
func (p *plan) put(ctx context.Context, old, n files.Node, content *staged) error {
	p.count(old, n)
	st := step{Op: opPut, Path: n.Path, Staged: content.name, Node: n, Hash: content.state}
	m := p.made[n.Path.Key()]
	if m.replaceable() {
		// The step that wrote the file writes this instead.
		before := p.steps[m.step]
		st.Keep, st.KeepInode = before.Keep, before.KeepInode
		p.unused = append(p.unused, m.staged)
		p.steps[m.step] = st
		p.set(n, &made{step: m.step, staged: content})
		return nil
	}
	on, err := p.look(ctx, old, false)
	if err != nil {
		return err
	}
	st.Keep, st.KeepInode = on.kept(), on.inode
	p.steps = append(p.steps, st)
	p.set(n, &made{step: len(p.steps) - 1, staged: content})
	return nil
}

// count adjusts the usage.
func (p *plan) count(old, now files.Node) {
	p.usage.Bytes += now.Size - old.Size
	if now.Exists() && !old.Exists() {
		p.usage.Files++
	}
	if old.Exists() && !now.Exists() {
		p.usage.Files--
	}
}

// Append implements [files.Tx].
func (p *plan) Append(ctx context.Context, f files.File) (files.Node, error) {
	n, err := p.one(ctx, f.Path)
	if err != nil {
		return files.Node{}, err
	}
	if n.Kind != files.KindFile {
		return files.Node{}, fsops.ErrNotFound(f.Path.String())
	}
	on, err := p.look(ctx, n, true)
	if err != nil {
		return files.Node{}, err
	}
	state := on.hash
	if m := p.made[n.Path.Key()]; m != nil {
		state = p.steps[m.step].Hash
	}
	content, err := p.takeOver(f.Content)
	if err != nil {
		return files.Node{}, err
	}
	h := sha256.New()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return files.Node{}, err
	}
	if err := readInto(h, content); err != nil {
		return files.Node{}, err
	}
	old := n
	n.Size, n.SHA256, n.Author, n.ModTime = n.Size+content.size, hex.EncodeToString(h.Sum(nil)), f.Author, p.now
	n.Revision, n.Ref = p.store.newRevision(p.now), ""
	p.count(old, n)
	if m := p.made[n.Path.Key()]; m.replaceable() {
		return n, p.extend(ctx, m, n, content, hashState(h))
	}
	p.steps = append(p.steps, step{
		Op: opAppend, Path: n.Path, Staged: content.name, Offset: old.Size, Inode: on.inode, Node: n, Hash: hashState(h), Keep: on.kept(), KeepInode: on.inode,
	})
	p.set(n, &made{step: len(p.steps) - 1, origin: on.node, on: on, staged: content})
	return n, nil
}

// Remove implements [files.Tx].
func (p *plan) Remove(ctx context.Context, path fsops.Path) error {
	n, err := p.one(ctx, path)
	if err != nil {
		return err
	}
	if n.Kind != files.KindFile {
		return fsops.ErrNotFound(path.String())
	}
	p.count(n, files.Node{})
	if p.takeBack(path) {
		return nil
	}
	on, err := p.look(ctx, n, false)
	if err != nil {
		return err
	}
	p.steps = append(p.steps, step{Op: opRemove, Path: n.Path, Inode: on.inode, Keep: on.kept(), KeepInode: on.inode})
	p.unset(path)
	return nil
}

// Rename implements [files.Tx].
func (p *plan) Rename(ctx context.Context, from, to fsops.Path, author string) (files.Node, error) {
	if err := fits(to); err != nil {
		return files.Node{}, err
	}
	n, err := p.one(ctx, from)
	if err != nil {
		return files.Node{}, err
	}
	if n.Kind != files.KindFile {
		return files.Node{}, fsops.ErrNotFound(from.String())
	}
	source, moved := n, n
	moved.Path, moved.Author, moved.Ref = to, author, ""
	moved.Revision = p.store.newRevision(p.now)
	m := p.made[from.Key()]
	if m.whole() {
		return moved, p.putElsewhere(ctx, m, source, moved)
	}
	on, err := p.look(ctx, n, true)
	if err != nil {
		return files.Node{}, err
	}
	st := step{Op: opRename, Path: to, From: source.Path, Inode: on.inode, Node: moved, Hash: on.hash}
	next := &made{origin: on.node, on: on}
	if m != nil {
		st.Hash, next.staged = p.steps[m.step].Hash, m.staged
		p.elsewhere(m)
	}
	if from.Key() != to.Key() {
		target, err := p.one(ctx, to)
		if err != nil {
			return files.Node{}, err
		}
		p.count(target, files.Node{})
		over, err := p.look(ctx, target, false)
		if err != nil {
			return files.Node{}, err
		}
		st.Keep, st.KeepInode = over.kept(), over.inode
		p.elsewhere(p.made[to.Key()])
	}
	p.steps = append(p.steps, st)
	next.step, next.renamed = len(p.steps)-1, true
	p.unset(from)
	p.set(moved, next)
	return moved, nil
}

// elsewhere notes that a file that an append of this update is about will be moved, or replaced.
func (p *plan) elsewhere(m *made) {
	if m != nil && p.steps[m.step].Op == opAppend {
		p.steps[m.step].Moves = true
	}
}

// inodeOf reads the inode from a signature.
func inodeOf(signature string) uint64 {
	first, _, _ := strings.Cut(signature, "-")
	n, err := strconv.ParseUint(first, 16, 64)
	if err != nil {
		return 0
	}
	return n
}
