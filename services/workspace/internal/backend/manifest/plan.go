package manifest

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// plan is one run of an update: what it is going to change, and the space as it will be. Nothing is written before the run has ended.
type plan struct {
	live    *live
	batch   *batch
	state   *state
	now     time.Time
	ops     []op
	took    []*staged
	pending map[piece][]byte // chunks to be put
	made    map[string]bool  // revisions of this run
	noted   map[string]bool  // keys of which this run has kept a previous revision
	gone    map[string]bool  // keys of the files that it has removed
	effects map[string]*op
	bytes   int
}

var _ files.Tx = (*plan)(nil)

func newPlan(l *live, b *batch) *plan {
	return &plan{
		live: l, batch: b, state: l.clone(b.state), now: b.entry.time, pending: map[piece][]byte{},
		made: map[string]bool{}, noted: map[string]bool{}, gone: map[string]bool{}, effects: map[string]*op{},
	}
}

// run runs the function of an update; a panic is an error.
func (p *plan) run(ctx context.Context, f func(context.Context, files.Tx) ([]byte, error)) (outcome []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("an update panicked: %v\n%s", r, debug.Stack())
		}
	}()
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	if outcome, err = f(ctx, p); err == nil {
		err = ctx.Err()
	}
	return outcome, err
}

// do adds an operation.
func (p *plan) do(o op) error {
	if err := p.state.apply(&o, p.now, p.live.note); err != nil {
		return err
	}
	p.ops = append(p.ops, o)
	p.bytes += 200 + len(o.outcome) + 2*len(o.path.String()) + 24*len(o.pieces)
	return nil
}

// giveBack leaves staged content to whoever staged it: the run did not count.
func (p *plan) giveBack() {
	for _, s := range p.took {
		s.mu.Lock()
		s.taken = false
		s.mu.Unlock()
	}
}

// takeOver marks staged content as this update's.
func (p *plan) takeOver(from files.Staged) (*staged, error) {
	s, ok := from.(*staged)
	if !ok || s.store != p.live.store {
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

// newRevision gives out a revision that no one had before: the nonce of the entry, and a number.
func (p *plan) newRevision() string {
	p.batch.revisions++
	r := fmt.Sprintf("%x.%x", p.batch.entry.at.Nonce, p.batch.revisions)
	p.made[r] = true
	return r
}

// Put implements [files.Tx].
func (p *plan) Put(ctx context.Context, f files.File) (files.Node, error) {
	if err := fits(f.Path); err != nil {
		return files.Node{}, err
	}
	content, err := p.takeOver(f.Content)
	if err != nil {
		return files.Node{}, err
	}
	pieces, pending, err := content.settle(ctx, p.live.space, tagOf(p.state.generation))
	if err != nil {
		return files.Node{}, err
	}
	maps.Copy(p.pending, pending)
	n := files.Node{
		Path: f.Path, Kind: files.KindFile, Size: content.size, SHA256: content.sum, Mode: f.Mode, Author: f.Author, ModTime: f.ModTime, Revision: p.newRevision(),
	}
	if n.ModTime.IsZero() {
		n.ModTime = p.now
	}
	n.ModTime = n.ModTime.UTC().Truncate(time.Microsecond)
	return p.write(op{kind: opPut, path: f.Path, node: n, pieces: pieces, hash: keptHash(content.size, content.hash)})
}

// write carries out an operation that gives a file at its path a new content.
func (p *plan) write(o op) (files.Node, error) {
	old := p.state.file(o.path)
	o.kept = p.keeps(old)
	if err := p.do(o); err != nil {
		return files.Node{}, err
	}
	if old == nil {
		if err := p.comesBack(o.path); err != nil {
			return files.Node{}, err
		}
	}
	return p.state.file(o.path).Node, p.noteKept(o.kept, o.path)
}

// keptHash is the state of a SHA-256 if a file of that size keeps it.
func keptHash(size int64, state []byte) []byte {
	if size <= hashedAnew {
		return nil
	}
	return state
}

// Append implements [files.Tx].
func (p *plan) Append(ctx context.Context, f files.File) (files.Node, error) {
	old, err := p.existing(f.Path)
	if err != nil {
		return files.Node{}, err
	}
	content, err := p.takeOver(f.Content)
	if err != nil {
		return files.Node{}, err
	}
	data, err := content.bytes(ctx, p)
	if err != nil {
		return files.Node{}, err
	}
	h := sha256.New()
	if len(old.hash) > 0 {
		if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(old.hash); err != nil {
			return files.Node{}, errDamaged("state of a hash")
		}
	} else if err := p.eachChunk(ctx, old.pieces, func(part []byte) { h.Write(part) }); err != nil {
		return files.Node{}, err
	}
	h.Write(data)
	keep, pieces, err := p.extend(ctx, old, content, data)
	if err != nil {
		return files.Node{}, err
	}
	n := old.Node
	n.Size, n.SHA256 = n.Size+content.size, hex.EncodeToString(h.Sum(nil))
	n.Revision, n.Author, n.ModTime = p.newRevision(), f.Author, p.now
	return p.write(op{kind: opExtend, path: old.Path, node: n, keep: keep, pieces: pieces, hash: keptHash(n.Size, hashState(h))})
}

// extend gives the pieces that a file goes on with, after those of its own that it keeps. When it ends with many small ones, they are joined.
func (p *plan) extend(ctx context.Context, old *item, content *staged, data []byte) (keep int, pieces []piece, err error) {
	keep = len(old.pieces)
	small, total := 0, int64(len(data))
	for i := keep - 1; i >= 0 && old.pieces[i].size < smallPiece && total+int64(old.pieces[i].size) <= chunkBytes; i-- {
		small++
		total += int64(old.pieces[i].size)
	}
	t := tagOf(p.state.generation)
	if small+1 < smallPieces || content.size == 0 {
		pieces, pending, err := content.settle(ctx, p.live.space, t)
		maps.Copy(p.pending, pending)
		return keep, pieces, err
	}
	keep -= small
	joined := make([]byte, 0, total)
	if err := p.eachChunk(ctx, old.pieces[keep:], func(part []byte) { joined = append(joined, part...) }); err != nil {
		return 0, nil, err
	}
	joined = append(joined, data...)
	pieces = newPieces(t, total)
	p.pending[pieces[0]] = joined
	return keep, pieces, nil
}

// bytes returns content that is to be appended. Appends are bounded by the size of a message, so they fit into memory.
func (s *staged) bytes(ctx context.Context, p *plan) ([]byte, error) {
	if len(s.chunks) == 0 {
		return s.data, nil
	}
	pieces, _, err := s.settle(ctx, p.live.space, tagOf(p.state.generation))
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, s.size)
	err = p.eachChunk(ctx, pieces, func(part []byte) { data = append(data, part...) })
	return data, err
}

// Remove implements [files.Tx].
func (p *plan) Remove(_ context.Context, path fsops.Path) error {
	old, err := p.existing(path)
	if err != nil {
		return err
	}
	kept := p.keeps(old)
	if err := p.do(op{kind: opRemove, path: old.Path, kept: kept}); err != nil {
		return err
	}
	return p.goes(old, kept)
}

// Rename implements [files.Tx].
func (p *plan) Rename(_ context.Context, from, to fsops.Path, author string) (files.Node, error) {
	if err := fits(to); err != nil {
		return files.Node{}, err
	}
	old, err := p.existing(from)
	if err != nil {
		return files.Node{}, err
	}
	n := old.Node
	n.Path, n.Revision, n.Author = to, p.newRevision(), author
	o := op{kind: opRename, from: old.Path, path: to, node: n, kept: p.keeps(old)}
	away := old.Path.Key() != to.Key()
	var target *item
	if away {
		target = p.state.file(to)
		o.kept2 = p.keeps(target)
	}
	if err := p.do(o); err != nil {
		return files.Node{}, err
	}
	if away {
		err = p.goes(old, o.kept)
		if err == nil && target == nil {
			err = p.comesBack(to)
		}
		if err == nil {
			err = p.noteKept(o.kept2, to)
		}
	} else {
		err = p.noteKept(o.kept, to)
	}
	return p.state.file(to).Node, err
}

// existing returns a file that must be there.
func (p *plan) existing(path fsops.Path) (*item, error) {
	if it := p.state.file(path); it != nil {
		return it, nil
	}
	return nil, errdefs.New(errdefs.ErrNotFound, fsops.Domain, fsops.ReasonPathNotFound, "the space has no such file").With("path", path.String())
}

// fits refuses names that can't be kept.
func fits(p fsops.Path) error {
	if _, changed := fsops.Text(p.String()); changed {
		return fsops.ErrNameUnsupported(p.String(), "this store holds names in UTF-8 only")
	}
	return nil
}
