package manifest

import (
	"context"
	"slices"
	"sync"
)

// turns lets one update of a space run at a time, in the order in which they came.
type turns struct {
	mu    sync.Mutex
	taken bool
	queue []chan struct{}
}

// acquire waits for the turn. Who has it must pass it on.
func (t *turns) acquire(ctx context.Context) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.queue = append(t.queue, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.queue, mine); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
		return ctx.Err()
	}
	return nil // the turn came at the same moment; somebody may count on us
}

// pass gives the turn to whoever waits for it longest; false when nobody does, and the caller keeps it.
func (t *turns) pass() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		return false
	}
	close(t.queue[0])
	t.queue = t.queue[1:]
	return true
}

// release gives the turn away.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.taken = false
		return
	}
	close(t.queue[0])
	t.queue = t.queue[1:]
}
