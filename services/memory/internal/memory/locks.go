package memory

import (
	"context"
	"sync"
	"time"
)

// keyedLocks is one lock a key, for as long as somebody holds it or waits for it. The zero value is ready.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	token chan struct{}
	users int
}

// lock waits for the lock of a key and gives the function that releases it.
func (k *keyedLocks) lock(ctx context.Context, key string) (unlock func(), err error) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[key]
	if l == nil {
		l = &keyedLock{token: make(chan struct{}, 1)}
		k.locks[key] = l
	}
	l.users++
	k.mu.Unlock()
	leave := func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, key)
		}
	}
	select {
	case l.token <- struct{}{}:
		return func() { <-l.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// held says whether somebody holds the lock of a key.
func (k *keyedLocks) held(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.locks[key]
	return l != nil && len(l.token) > 0
}

// maxStatuses bounds the buckets whose state is remembered for GetStatus.
const maxStatuses = 4096

// keyStatus is what happened to one index or bucket in this process.
type keyStatus struct {
	synced                               time.Time
	pending                              int
	indexErr, consolidationErr, flushErr string
}

// statusBoard remembers what happened, for GetStatus. The zero value is ready.
type statusBoard struct {
	mu  sync.Mutex
	all map[string]*keyStatus
}

func (b *statusBoard) get(key string) keyStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.all[key]; s != nil {
		return *s
	}
	return keyStatus{pending: -1}
}

func (b *statusBoard) set(key string, change func(*keyStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string]*keyStatus{}
	}
	s := b.all[key]
	if s == nil {
		if len(b.all) >= maxStatuses {
			clear(b.all)
		}
		s = &keyStatus{pending: -1}
		b.all[key] = s
	}
	change(s)
}

// errorText is the text of an error, bounded; empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	const most = 512
	text := err.Error()
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
