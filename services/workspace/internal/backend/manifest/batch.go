package manifest

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// A batch is committed at the latest when it has this many updates or bytes.
	batchUpdates = 64
	batchOps     = 1 << 20
	batchContent = 16 << 20
	// commitTime bounds a commit, whatever becomes of the callers.
	commitTime = 30 * time.Second
	// createTries is how often the same entry is offered while it is not known whether it was taken.
	createTries = 3
)

// batch is the updates that are going to be one entry.
type batch struct {
	base      *state // in the log
	state     *state // with what the updates change
	entry     *entry
	pending   map[piece][]byte // chunks to be put
	put       []piece          // … which only this batch knows
	took      []*staged
	effects   map[string]*op
	updates   int
	bytes     int
	content   int
	revisions int

	begun   time.Time     // before the base was known to be the newest state
	done    chan struct{} // closed when the outcome is certain, or certain to stay unknown
	err     error
	unknown bool // with err: whether the entry exists is not known
}

func newBatch(l *live, base *state, begun time.Time) *batch {
	var nonce [8]byte
	rand.Read(nonce[:])
	n := &entry{
		at:    Position{Number: base.at.Number + 1, Nonce: binary.BigEndian.Uint64(nonce[:]) | 1},
		after: base.at.Nonce, time: l.store.now().UTC().Truncate(time.Microsecond), generation: base.generation,
	}
	if n.generation == "" {
		n.generation = newGeneration()
	}
	b := &batch{begun: begun, base: base, state: l.clone(base), entry: n, pending: map[piece][]byte{}, effects: map[string]*op{}, done: make(chan struct{})}
	b.state.begin(n)
	return b
}

// newGeneration names a new life of a space.
func newGeneration() string {
	var random [5]byte
	rand.Read(random[:])
	return strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))
}

// join adds what a run of an update has changed.
func (b *batch) join(p *plan) {
	if len(p.ops) == 0 {
		return
	}
	b.state = p.state
	b.entry.ops = append(b.entry.ops, p.ops...)
	maps.Copy(b.pending, p.pending)
	maps.Copy(b.effects, p.effects)
	b.took = append(b.took, p.took...)
	b.updates++
	b.bytes += p.bytes
	for _, data := range p.pending {
		b.content += len(data)
	}
}

func (b *batch) full() bool {
	return b.updates >= batchUpdates || b.bytes >= batchOps || b.content >= batchContent
}

// commit makes an entry of a batch. The caller has the turn.
func (l *live) commit(b *batch) {
	l.open = nil
	defer close(b.done)
	if len(b.entry.ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTime)
	defer cancel()
	if b.err = l.putContent(ctx, b); b.err == nil {
		b.err, b.unknown = l.create(ctx, b)
	}
	if b.err != nil {
		l.discard(ctx, b)
		return
	}
	l.publish(b.state, b.begun)
	l.store.changed(l.space)
	l.tend(b.state)
}

// putContent writes the chunks that the entry speaks of.
func (l *live) putContent(ctx context.Context, b *batch) error {
	if len(b.pending) == 0 {
		return nil
	}
	chunks := make([]Chunk, 0, len(b.pending))
	for at, data := range b.pending {
		chunks = append(chunks, Chunk{Name: at.name(), Data: data})
	}
	known := map[piece]bool{} // to those who staged them, who remove them if need be
	var homes []*staged
	for _, s := range b.took {
		if s.waits(b.pending) {
			homes = append(homes, s)
			s.noteHome(false)
			known[s.home.pieces[0]] = true
		}
	}
	for at := range b.pending {
		if !known[at] {
			b.put = append(b.put, at)
		}
	}
	if err := l.store.driver.Put(ctx, l.space, chunks); err != nil {
		return err
	}
	for _, s := range homes {
		s.noteHome(true)
	}
	for at, data := range b.pending {
		l.store.chunks.put(l.space, at, data)
	}
	return nil
}

// discard removes the chunks that only a batch knew which is no entry. Staged content stays for the next run.
func (l *live) discard(ctx context.Context, b *batch) {
	if !b.unknown && len(b.put) > 0 {
		_ = l.store.driver.Delete(ctx, l.space, namesOf(b.put)) // else the sweep of orphans does it
	}
}

// create makes the entry, and finds out what became of it when the answer does not say so.
func (l *live) create(ctx context.Context, b *batch) (err error, unknown bool) {
	data := b.entry.encode()
	for try := 1; ; try++ {
		err := l.store.driver.Create(ctx, l.space, b.base.at, b.entry.at, data)
		switch {
		case err == nil:
			return l.confirm(ctx, b)
		case errors.Is(err, errdefs.ErrFailedPrecondition), errors.Is(err, errdefs.ErrInvalidArgument):
			return err, false
		}
		found, there, lookErr := l.at(ctx, b.entry.at.Number)
		switch {
		case lookErr != nil || try == createTries && !there:
			// The request may still be on its way: the content must stay.
			return unclear(err), true
		case there && found == b.entry.at.Nonce:
			return l.confirm(ctx, b)
		case there:
			return errRerun, false
		case errors.Is(err, ErrTaken):
			// The log does not end where the batch begins, and there is no entry: the store has lost some. What is in memory is of no use.
			l.drop()
			return errRerun, false
		}
	}
}

// moreTime is for finding out what became of a request that took all the time there was.
func moreTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), commitTime)
}

// unclear is the error of a change of which nobody knows whether it took place.
func unclear(err error) error {
	if errors.Is(err, ErrTaken) {
		err = nil
	}
	return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the store does not answer: whether the change took place is not known; repeat it with the same effect id")
}

// at returns the nonce of an entry.
func (l *live) at(ctx context.Context, number int64) (nonce uint64, there bool, err error) {
	ctx, cancel := moreTime(ctx)
	defer cancel()
	found, err := l.store.driver.Entries(ctx, l.space, number, number)
	if err != nil || len(found[0]) == 0 {
		return 0, err == nil && found[0] != nil, err
	}
	n, err := decodeEntry(found[0])
	if err != nil {
		return 0, false, err
	}
	return n.at.Nonce, true, nil
}

// confirm makes sure that an entry was created at the end of the log. It was, unless so much time has passed since the log was read that entries of its number may have
// come and gone.
func (l *live) confirm(ctx context.Context, b *batch) (err error, unknown bool) {
	if !expired(b.begun, l.store.driver.Trust()) {
		return nil, false
	}
	ctx, cancel := moreTime(ctx)
	defer cancel()
	marks, err := l.store.driver.Checkpoints(ctx, l.space)
	if err != nil {
		return unclear(err), true
	}
	number := b.entry.at.Number
	if n := len(marks); n == 0 || marks[n-1].Number <= number {
		return nil, false
	}
	next, err := l.store.driver.Entries(ctx, l.space, number+1, number+1)
	if err != nil {
		return unclear(err), true
	}
	if n, err := decodeEntry(next[0]); err == nil && n.after == b.entry.at.Nonce {
		return nil, false
	}
	l.drop()
	return errRerun, false
}
