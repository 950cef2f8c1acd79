// Package pool keeps indexes open within a bound of memory, the ones used last, and heals damaged ones.
//
// An index is opened on first use and stays open until others need its room; one that is in use is never closed. A damaged index is destroyed and opened
// empty, and the work on it begins again: whoever uses the pool fills an index from its sources before anything else, so nothing more is needed.
package pool

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

const (
	// baseBytes and docBytes estimate what an open index holds in memory: goroutines, tables and buffers of Bleve, measured at 0.3 MB for an index
	// of 100 documents; segments are mapped and count for the system, not here.
	baseBytes = 512 << 10
	docBytes  = 256
	// maxHeals is how often one use may find damage before it is the disk's fault and not the index's.
	maxHeals = 2
	// maxHealKeys bounds the counts that are kept for the status.
	maxHealKeys = 1024
)

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("pool: closed")

// ErrBusy says that the pool was full of indexes in use for as long as the caller could wait.
var ErrBusy = errors.New("pool: every index that may be open is in use")

// Pool opens indexes of one backend. Make one with [New].
type Pool struct {
	backend index.Backend
	limit   int64
	log     *slog.Logger

	mu      sync.Mutex
	entries map[string]*entry
	idle    *list.List // of *entry, the one used last in front
	used    int64
	closed  bool
	// changed is closed and replaced when an index becomes idle or is closed.
	changed chan struct{}
	heals   map[string]int
}

// entry is one index that is open, opening or closing.
type entry struct {
	key     string
	ready   chan struct{} // closed when opening ended
	gone    chan struct{} // closed when closing ended
	closing bool
	ix      index.Index
	err     error
	users   int
	cost    int64
	damaged bool
	element *list.Element
	write   chan struct{} // holds one token: the right to change the index
}

// Lease is the use of an open index.
type Lease struct {
	index.Index
	e *entry
}

// Lock waits for the right to change the index.
func (l *Lease) Lock(ctx context.Context) error {
	select {
	case l.e.write <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock gives the right back.
func (l *Lease) Unlock() { <-l.e.write }

// New makes a pool. The limit is in bytes of estimated memory; one index may always be open, whatever its size.
func New(backend index.Backend, limit int64, log *slog.Logger) *Pool {
	return &Pool{
		backend: backend, limit: limit, log: log,
		entries: map[string]*entry{}, idle: list.New(), changed: make(chan struct{}), heals: map[string]int{},
	}
}

// Use opens the index if need be and calls fn with it. When fn reports damage, or opening does, the index is destroyed and fn is called again with an
// empty one. While the pool is full of indexes in use, Use waits until ctx ends.
func (p *Pool) Use(ctx context.Context, key string, fn func(*Lease) error) error {
	for attempt := 0; ; attempt++ {
		err := p.once(ctx, key, fn)
		if !errors.Is(err, index.ErrDamaged) || attempt >= maxHeals {
			return err
		}
		p.log.WarnContext(ctx, "index damaged, building it anew", "index", key, "error", err)
		p.mu.Lock()
		if len(p.heals) >= maxHealKeys {
			clear(p.heals)
		}
		p.heals[key]++
		p.mu.Unlock()
		if err := p.Destroy(ctx, key); err != nil {
			return fmt.Errorf("%w: %w", index.ErrDamaged, err)
		}
	}
}

func (p *Pool) once(ctx context.Context, key string, fn func(*Lease) error) error {
	e, err := p.acquire(ctx, key)
	if err != nil {
		return err
	}
	err = fn(&Lease{Index: e.ix, e: e})
	p.release(e, errors.Is(err, index.ErrDamaged))
	return err
}

// acquire gives an open index with one more user.
func (p *Pool) acquire(ctx context.Context, key string) (*entry, error) {
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, ErrClosed
		}
		e := p.entries[key]
		switch {
		case e != nil && (e.closing || e.damaged):
			gone := e.gone
			p.mu.Unlock()
			if err := wait(ctx, gone); err != nil {
				return nil, err
			}
			continue
		case e != nil:
			e.users++
			if e.element != nil {
				p.idle.Remove(e.element)
				e.element = nil
			}
			p.mu.Unlock()
			if err := wait(ctx, e.ready); err != nil {
				p.release(e, false)
				return nil, err
			}
			if e.err != nil {
				return nil, e.err
			}
			return e, nil
		case p.used+baseBytes > p.limit && p.used > 0:
			err := p.makeRoom(ctx) // unlocks
			if err != nil {
				return nil, err
			}
			continue
		}
		e = &entry{key: key, ready: make(chan struct{}), gone: make(chan struct{}), users: 1, cost: baseBytes, write: make(chan struct{}, 1)}
		p.entries[key] = e
		p.used += e.cost
		p.mu.Unlock()
		p.open(ctx, e)
		if e.err != nil {
			return nil, e.err
		}
		return e, nil
	}
}

// open opens the index of a new entry; on failure the entry is gone.
func (p *Pool) open(ctx context.Context, e *entry) {
	ix, err := p.backend.Open(context.WithoutCancel(ctx), e.key)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.ix, e.err = ix, err
	if err != nil {
		p.forget(e)
	} else {
		p.weigh(e)
	}
	close(e.ready)
}

// weigh estimates the memory of an entry anew. The caller holds mu.
func (p *Pool) weigh(e *entry) {
	stats, err := e.ix.Stats(context.Background())
	if err != nil {
		return
	}
	cost := baseBytes + docBytes*stats.Docs
	p.used += cost - e.cost
	e.cost = cost
}

// release gives up one use. A damaged index is closed when its last user is done.
func (p *Pool) release(e *entry, damaged bool) {
	p.mu.Lock()
	e.users--
	e.damaged = e.damaged || damaged
	if e.users > 0 || e.err != nil || e.ix == nil {
		p.mu.Unlock()
		return
	}
	if e.damaged || p.closed {
		p.closeEntry(e) // unlocks
		return
	}
	p.weigh(e)
	e.element = p.idle.PushFront(e)
	p.signal()
	if p.used > p.limit && p.idle.Len() > 1 {
		p.closeEntry(p.idle.Back().Value.(*entry)) // unlocks
		return
	}
	p.mu.Unlock()
}

// makeRoom closes the idle index that was used longest ago, or waits until there is one. The caller holds mu; it is unlocked.
func (p *Pool) makeRoom(ctx context.Context) error {
	if back := p.idle.Back(); back != nil {
		p.closeEntry(back.Value.(*entry))
		return nil
	}
	changed := p.changed
	p.mu.Unlock()
	if err := wait(ctx, changed); err != nil {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return nil
}

// closeEntry closes an entry without users. The caller holds mu; it is unlocked.
func (p *Pool) closeEntry(e *entry) {
	if e.element != nil {
		p.idle.Remove(e.element)
		e.element = nil
	}
	e.closing = true
	p.mu.Unlock()
	if err := e.ix.Close(); err != nil {
		p.log.Warn("closing an index", "index", e.key, "error", err)
	}
	p.mu.Lock()
	p.forget(e)
	p.mu.Unlock()
}

// forget drops an entry. The caller holds mu.
func (p *Pool) forget(e *entry) {
	delete(p.entries, e.key)
	p.used -= e.cost
	close(e.gone)
	p.signal()
}

// signal wakes those who wait for room. The caller holds mu.
func (p *Pool) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
