// Package poll wakes calls that wait: workers for a task, clients for the end of one, watchers for changes. It holds no truth: whoever is woken looks at the store.
package poll

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// Hub knows who waits for what. It may be used by many goroutines.
type Hub struct {
	max int

	mu     sync.Mutex
	count  int
	closed bool
	done   chan struct{}
	byKey  map[string]map[*Waiter]struct{}
	// idle are the workers that wait at a queue, the longest waiting first.
	idle map[queue][]*Waiter
}

type queue struct{ tenant, name string }

// New returns a hub for at most max waiters.
func New(max int) *Hub {
	return &Hub{max: max, done: make(chan struct{}), byKey: make(map[string]map[*Waiter]struct{}), idle: make(map[queue][]*Waiter)}
}

// Waiter is one call that waits.
type Waiter struct {
	// C gets a value when there may be something to see. Values that nobody took are one.
	C chan struct{}

	hub  *Hub
	keys []string
	// For workers:
	queue        queue
	worker       bool
	capabilities []string
	// woken is the capability of the ready task that this worker was woken for and has not looked for yet.
	woken  *string
	failed bool
}

// Done is closed when the server stops: calls that wait answer with what there is.
func (h *Hub) Done() <-chan struct{} { return h.done }

// Close wakes everybody for good. It may be called twice.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// TaskKey is the key of the changes of one task, OwnerKey that of all tasks that one who has the owner key sees.
func TaskKey(tenant, id string) string { return "t\x00" + tenant + "\x00" + id }

// OwnerKey: see [TaskKey].
func OwnerKey(owner string) string { return "o\x00" + owner }

// Wait registers a waiter for keys. Look at the store after this call, then wait on C. Leave must be called.
func (h *Hub) Wait(keys ...string) (*Waiter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.admit(); err != nil {
		return nil, err
	}
	w := &Waiter{C: make(chan struct{}, 1), hub: h, keys: keys}
	for _, key := range keys {
		if h.byKey[key] == nil {
			h.byKey[key] = make(map[*Waiter]struct{})
		}
		h.byKey[key][w] = struct{}{}
	}
	return w, nil
}

// WaitForWork registers a worker at a queue. Each ready task wakes one worker that offers what it needs.
func (h *Hub) WaitForWork(tenant, name string, capabilities []string) (*Waiter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.admit(); err != nil {
		return nil, err
	}
	w := &Waiter{C: make(chan struct{}, 1), hub: h, queue: queue{tenant, name}, worker: true, capabilities: capabilities}
	h.idle[w.queue] = append(h.idle[w.queue], w)
	return w, nil
}

func (h *Hub) admit() error {
	if h.count >= h.max {
		return task.Errorf(errdefs.ErrResourceExhausted, task.ReasonTooManyWaiters, "%d calls wait at this server", h.count).
			With("limit", strconv.Itoa(h.max)).RetryIn(time.Second)
	}
	h.count++
	return nil
}

// Looked says that the worker looks at the store now: a wake-up that it had is used, and it can be woken again.
func (w *Waiter) Looked() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.woken == nil {
		return
	}
	w.woken = nil
	select {
	case <-w.C:
	default:
	}
	w.hub.idle[w.queue] = append(w.hub.idle[w.queue], w)
}

// Failed says that the worker could not look at the store: what it may have been woken for is offered to others when it leaves.
func (w *Waiter) Failed() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.failed = true
}

// Leave ends the wait. A wake-up that a worker had and did not use goes to the next one: the task that it was for is still there.
func (w *Waiter) Leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	for _, key := range w.keys {
		delete(h.byKey[key], w)
		if len(h.byKey[key]) == 0 {
			delete(h.byKey, key)
		}
	}
	if !w.worker {
		return
	}
	h.idle[w.queue] = slices.DeleteFunc(h.idle[w.queue], func(other *Waiter) bool { return other == w })
	if len(h.idle[w.queue]) == 0 {
		delete(h.idle, w.queue)
	}
	if w.woken != nil {
		h.wakeWorker(w.queue, *w.woken)
	}
	if w.failed {
		for _, capability := range append([]string{""}, w.capabilities...) {
			h.wakeWorker(w.queue, capability)
		}
	}
}

// Signal is a listener of the store.
func (h *Hub) Signal(s task.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s.Kind {
	case task.SignalReady:
		h.wakeWorker(queue{s.Tenant, s.Queue}, s.Capability)
	case task.SignalChanged:
		h.wake(TaskKey(s.Tenant, s.TaskID))
		h.wake(OwnerKey(s.Owner))
		if s.RootOwner != s.Owner {
			h.wake(OwnerKey(s.RootOwner))
		}
	}
}

func (h *Hub) wake(key string) {
	for w := range h.byKey[key] {
		select {
		case w.C <- struct{}{}:
		default:
		}
	}
}

// wakeWorker wakes the one that has waited longest and offers the capability.
func (h *Hub) wakeWorker(q queue, capability string) {
	waiting := h.idle[q]
	i := slices.IndexFunc(waiting, func(w *Waiter) bool { return capability == "" || slices.Contains(w.capabilities, capability) })
	if i < 0 {
		return
	}
	w := waiting[i]
	h.idle[q] = slices.Delete(waiting, i, i+1)
	if len(h.idle[q]) == 0 {
		delete(h.idle, q)
	}
	w.woken = &capability
	w.C <- struct{}{}
}
