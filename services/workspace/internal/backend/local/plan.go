package local

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// step is one change of the disk. Carrying it out twice is the same as once.
type step struct {
	Op   op
	Path fsops.Path
	// From is where a renamed file comes from.
	From fsops.Path
	// Staged names the content of opPut and opAppend in the staging directory.
	Staged string
	// Offset is where appended content goes.
	Offset int64
	// Inode of the file that is renamed, so that another one that has taken its name stays.
	Inode uint64
	// Node is the file after the step, and Hash the state of its SHA-256.
	Node files.Node
	Hash []byte
}

type op uint8

const (
	opPut op = iota + 1
	opAppend
	opRename
	opRemove
	opSetWhiteout
	opClearWhiteout
)

// plan is what an update is going to do. Nothing is done before its function has returned.
type plan struct {
	tree
	now     time.Time
	usage   files.Usage
	steps   []step
	changes []files.Change
	took    []*staged
	// written are files as they will be, by key; the zero node for one that will be gone.
	written map[string]files.Node
	whites  []string
}

var _ files.Tx = (*plan)(nil)

func (s *Store) newPlan(ctx context.Context, space files.Space) (*plan, error) {
	p := &plan{tree: tree{store: s, space: space}, now: s.now().UTC().Truncate(time.Microsecond), written: map[string]files.Node{}}
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
	for _, s := range p.took {
		s.mu.Lock()
		s.taken = false
		s.mu.Unlock()
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
	p.count(old, n)
	p.steps = append(p.steps, step{Op: opPut, Path: f.Path, Staged: content.name, Node: n, Hash: content.state})
	p.written[f.Path.Key()] = n
	return n, nil
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
	if _, here := p.written[f.Path.Key()]; here {
		return files.Node{}, errors.New("an append to a file that the same update writes")
	}
	state, err := p.hashOf(ctx, n)
	if err != nil {
		return files.Node{}, err
	}
	content, err := p.takeOver(f.Content)
	if err != nil {
		return files.Node{}, err
	}
	h := sha256.New()
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		return files.Node{}, err
	}
	file, err := os.Open(content.path())
	if err != nil {
		return files.Node{}, diskError(err)
	}
	_, err = io.Copy(h, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return files.Node{}, diskError(err)
	}
	old := n
	n.Size, n.SHA256, n.Author, n.ModTime = n.Size+content.size, hex.EncodeToString(h.Sum(nil)), f.Author, p.now
	n.Revision, n.Ref = p.store.newRevision(p.now), ""
	p.count(old, n)
	p.steps = append(p.steps, step{Op: opAppend, Path: n.Path, Staged: content.name, Offset: old.Size, Node: n, Hash: hashState(h)})
	p.written[n.Path.Key()] = n
	return n, nil
}

// hashOf returns the state of the SHA-256 of a file: from the index, or by reading a file that was changed outside.
func (p *plan) hashOf(ctx context.Context, n files.Node) ([]byte, error) {
	known, err := p.store.index.Known(ctx, p.space, []string{n.Path.Key()})
	if err != nil {
		return nil, err
	}
	if d := detailOf(known[n.Path.Key()]); d.Signature == n.Ref && len(d.Hash) > 0 {
		return d.Hash, nil
	}
	content, err := p.tree.Open(ctx, n)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, files.NewReader(ctx, content, 0)); err != nil {
		return nil, err
	}
	return hashState(h), nil
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
	p.steps = append(p.steps, step{Op: opRemove, Path: n.Path})
	p.written[path.Key()] = files.Node{}
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
	if _, here := p.written[from.Key()]; here {
		return files.Node{}, errors.New("a rename of a file that the same update writes")
	}
	if from.Key() != to.Key() {
		target, err := p.one(ctx, to)
		if err != nil {
			return files.Node{}, err
		}
		p.count(target, files.Node{})
	}
	state, err := p.hashOf(ctx, n)
	if err != nil {
		return files.Node{}, err
	}
	inode := inodeOf(n.Ref)
	source := n.Path
	n.Path, n.Author, n.Ref = to, author, ""
	n.Revision = p.store.newRevision(p.now)
	p.steps = append(p.steps, step{Op: opRename, Path: to, From: source, Inode: inode, Node: n, Hash: state})
	p.written[from.Key()] = files.Node{}
	p.written[to.Key()] = n
	return n, nil
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

// SetWhiteout implements [files.Tx].
func (p *plan) SetWhiteout(_ context.Context, path fsops.Path) error {
	if i, found := slices.BinarySearch(p.whites, path.Key()); !found {
		p.whites = slices.Insert(p.whites, i, path.Key())
		p.steps = append(p.steps, step{Op: opSetWhiteout, Path: path})
	}
	return nil
}

// ClearWhiteout implements [files.Tx].
func (p *plan) ClearWhiteout(_ context.Context, path fsops.Path) error {
	if i, found := slices.BinarySearch(p.whites, path.Key()); found {
		p.whites = slices.Delete(p.whites, i, i+1)
		p.steps = append(p.steps, step{Op: opClearWhiteout, Path: path})
	}
	return nil
}

// Whiteouts implements [files.Own].
func (p *plan) Whiteouts(context.Context) ([]string, error) { return slices.Clone(p.whites), nil }

// Log implements [files.Tx].
func (p *plan) Log(_ context.Context, c files.Change) error {
	p.changes = append(p.changes, c)
	return nil
}

// Usage implements [files.Tx].
func (p *plan) Usage(context.Context) (files.Usage, error) { return p.usage, nil }

// fits refuses names that the index can't hold.
func fits(p fsops.Path) error {
	if _, changed := fsops.Text(p.String()); changed {
		return fsops.ErrNameUnsupported(p.String(), "this store holds names in UTF-8 only")
	}
	return nil
}
