package pool

import (
	"context"
	"errors"
)

// Destroy closes the index of that key when its last user is done, and removes it.
func (p *Pool) Destroy(ctx context.Context, key string) error {
	for {
		p.mu.Lock()
		e := p.entries[key]
		if e == nil {
			// The key is kept busy while the directory goes, so that nobody opens half of it.
			e = &entry{key: key, ready: make(chan struct{}), gone: make(chan struct{}), closing: true}
			p.entries[key] = e
			p.mu.Unlock()
			err := p.backend.Destroy(ctx, key)
			p.mu.Lock()
			p.forget(e)
			p.mu.Unlock()
			return err
		}
		if e.users == 0 && !e.closing {
			p.closeEntry(e)
			continue
		}
		changed := p.changed
		p.mu.Unlock()
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

// State is what the pool knows of one index.
type State struct {
	Open   bool
	Exists bool
	Bytes  int64
	Heals  int
}

// State describes the index of a key without opening it.
func (p *Pool) State(ctx context.Context, key string) State {
	p.mu.Lock()
	e := p.entries[key]
	s := State{Open: e != nil && e.ix != nil && !e.closing, Heals: p.heals[key]}
	p.mu.Unlock()
	s.Bytes, s.Exists = p.backend.Exists(ctx, key)
	s.Exists = s.Exists || s.Open
	return s
}

// Used gives the estimated memory of what is open, and the number of open indexes.
func (p *Pool) Used() (bytes int64, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, len(p.entries)
}

// Close refuses new uses, waits for the ones at work until ctx ends, and closes every index. It may be called twice.
func (p *Pool) Close(ctx context.Context) error {
	for {
		p.mu.Lock()
		p.closed = true
		if len(p.entries) == 0 {
			p.mu.Unlock()
			return nil
		}
		if back := p.idle.Back(); back != nil {
			p.closeEntry(back.Value.(*entry))
			continue
		}
		changed := p.changed
		p.mu.Unlock()
		if err := wait(ctx, changed); err != nil {
			return errors.Join(errors.New("pool: indexes are still in use"), err)
		}
	}
}
