package journalsqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// writer runs all changes, in order, in shared transactions.
type writer struct {
	session *session
	notify  *journalsql.Notifier
	clock   func() time.Time

	mu    sync.Mutex
	queue []*op
	last  time.Time
	// setBack says that the clock was set back, and that owners live too long by it.
	setBack bool
	closed  bool
	// signal has room for one: there is something in the queue, or the end.
	signal chan struct{}
}

// op is one queued operation.
type op struct {
	do func(*journalsql.Tx) error
	// bare operations run outside of a transaction.
	bare bool
	now  time.Time
	// taken is set by whoever comes first: the writer that begins it, or the caller that gives up waiting.
	taken atomic.Bool
	err   error
	notes []journalsql.Note
	done  chan struct{}
}

func newWriter(s *session, n *journalsql.Notifier, clock func() time.Time) *writer {
	return &writer{session: s, notify: n, clock: clock, signal: make(chan struct{}, 1)}
}

// now is the store's clock.
func (w *writer) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tick()
}

// tick reads the clock under the lock. It does not run backwards by the little that clocks are corrected by all the time. When the machine's clock was really
// set back, holding on to the old time would stop the store's, and with it every timer and expiry.
func (w *writer) tick() time.Time {
	now := time.Unix(0, w.clock().UnixNano()).UTC()
	if now.After(w.last) {
		w.last = now
	} else if w.last.Sub(now) > maxHold {
		w.last, w.setBack = now, true
	}
	return w.last
}

// trimOwners shortens lives that were given before the clock was set back to what they may be now.
func (w *writer) trimOwners() error {
	w.mu.Lock()
	setBack, most := w.setBack, w.last.Add(journal.OwnerLife).UnixNano()
	w.setBack = false
	w.mu.Unlock()
	if !setBack {
		return nil
	}
	return w.session.Do("UPDATE owners SET expire = ?1 WHERE state = 0 AND expire > ?1", most)
}

// do queues f and waits until its transaction is durable. When ctx ends first, f may still run.
func (w *writer) do(ctx context.Context, f func(*journalsql.Tx) error, bare bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{do: f, bare: bare, done: make(chan struct{})}
	if err := w.enqueue(o); err != nil {
		return err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		o.taken.CompareAndSwap(false, true)
		return ctx.Err()
	}
}

func (w *writer) enqueue(o *op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return journalsql.ErrClosed
	}
	if len(w.queue) >= maxQueue {
		return errBusy
	}
	// Under the lock, so that times are in the order of operations.
	o.now = w.tick()
	w.queue = append(w.queue, o)
	w.ring()
	return nil
}

func (w *writer) ring() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// stop makes run return once the queue is empty.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.ring()
}

// run applies groups until stop.
func (w *writer) run() {
	for range w.signal {
		for {
			group, closed := w.take()
			if len(group) > 0 {
				w.apply(group)
				continue
			}
			if closed {
				return
			}
			break
		}
	}
}

// take removes the next group from the queue: a run of operations that share a transaction, or one bare operation.
func (w *writer) take() (group []*op, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(w.queue) && n < maxGroup {
		o := w.queue[n]
		if o.bare && len(group) > 0 {
			break
		}
		n++
		if o.taken.CompareAndSwap(false, true) {
			group = append(group, o)
			if o.bare {
				break
			}
		}
	}
	w.queue = append([]*op(nil), w.queue[n:]...)
	return group, w.closed && len(w.queue) == 0
}

// apply runs a group and answers its callers.
func (w *writer) apply(group []*op) {
	if group[0].bare {
		group[0].err = w.call(group[0])
	} else {
		w.transact(group)
	}
	for _, o := range group {
		if o.err == nil {
			w.notify.Send(o.notes)
		}
		close(o.done)
	}
}

// transact runs the operations in one transaction. An operation that is refused is undone alone. When the store itself fails, the whole transaction is
// undone and every operation gets one of its own, so that a bad record of one thread does not fail the others.
func (w *writer) transact(group []*op) {
	fault := func() error {
		if err := w.session.Do("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		if err := w.trimOwners(); err != nil {
			return err
		}
		for _, o := range group {
			if err := w.session.Do("SAVEPOINT op"); err != nil {
				return err
			}
			o.notes = o.notes[:0]
			if o.err = w.call(o); o.err == nil {
				if err := w.session.Do("RELEASE op"); err != nil {
					return err
				}
				continue
			}
			if !journalsql.IsTyped(o.err) {
				return o.err
			}
			if err := w.session.Do("ROLLBACK TO op"); err != nil {
				return err
			}
			if err := w.session.Do("RELEASE op"); err != nil {
				return err
			}
		}
		return w.session.Do("COMMIT")
	}()
	if fault == nil {
		return
	}
	// Fails when SQLite has rolled back by itself, which is as good.
	_ = w.session.Do("ROLLBACK")
	if len(group) == 1 {
		group[0].err = fault
		return
	}
	for _, o := range group {
		w.transact([]*op{o})
	}
}

// call runs one operation; a panic is its error, for the callers of others must not hang.
func (w *writer) call(o *op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("journalsqlite: panic: %v", p)
		}
	}()
	t := &journalsql.Tx{View: journalsql.View{Session: w.session, Dialect: &dialect, Now: o.now}, Notes: o.notes}
	defer func() { o.notes = t.Notes }()
	return o.do(t)
}
