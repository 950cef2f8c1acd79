package journalpostgres

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// never is [journal.Never] as it is stored.
const never = math.MaxInt64

// queue holds commits that wait for a connection.
type queue struct {
	mu      sync.Mutex
	waiting []*commit
	closed  bool
	ready   *sync.Cond
}

// commit is one call of the database's function and its answer.
type commit struct {
	key   string
	batch *journal.Batch
	hash  journal.Sum
	// taken is set by whoever comes first: the committer that begins it, or the caller that gives up waiting.
	taken    atomic.Bool
	answered chan struct{}

	done                              bool
	made, thread, head, openMail, due int64
	err                               error
}

func newQueue() *queue {
	q := &queue{}
	q.ready = sync.NewCond(&q.mu)
	return q
}

// read takes the answer.
func (c *commit) read(row pgx.Row) error {
	return row.Scan(&c.done, &c.made, &c.thread, &c.head, &c.openMail, &c.due)
}

// do queues the commit and waits until it is durable or refused. When ctx ends first it may still be made.
func (q *queue) do(ctx context.Context, c *commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.answered = make(chan struct{})
	if err := q.add(c); err != nil {
		return err
	}
	select {
	case <-c.answered:
		return c.err
	case <-ctx.Done():
		c.taken.CompareAndSwap(false, true)
		return ctx.Err()
	}
}

func (q *queue) add(c *commit) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return journalsql.ErrClosed
	case len(q.waiting) >= maxQueue:
		return errBusy
	}
	q.waiting = append(q.waiting, c)
	q.ready.Signal()
	return nil
}

// take waits for commits and returns a group of them; false when the queue is closed and empty.
func (q *queue) take() ([]*commit, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		q.gather()
		var group []*commit
		for len(q.waiting) > 0 && len(group) < maxGroup {
			c := q.waiting[0]
			q.waiting[0] = nil
			q.waiting = q.waiting[1:]
			if c.taken.CompareAndSwap(false, true) {
				group = append(group, c)
			}
		}
		if len(group) > 0 {
			return group, true
		}
		if q.closed {
			return nil, false
		}
		q.ready.Wait()
	}
}

// gather lets those run who are about to queue a commit, while more come: many were answered together a moment ago. Nobody waits for who does not.
func (q *queue) gather() {
	for last := 0; len(q.waiting) > last && len(q.waiting) < maxGroup; {
		last = len(q.waiting)
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
}

// close makes take end once the queue is empty.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}
