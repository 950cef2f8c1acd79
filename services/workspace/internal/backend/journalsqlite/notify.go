package journalsqlite

import (
	"context"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// note says what a transaction changed: a thread's journal (its id), or, as claimNote, that a thread may have become due.
type note int64

const claimNote note = 0

// changed notes that the journal of a thread grew or ended.
func (t *tx) changed(thread int64) { *t.notes = append(*t.notes, note(thread)) }

// due notes that a thread may be due.
func (t *tx) due() { *t.notes = append(*t.notes, claimNote) }

// notifier wakes the waiters of this process.
type notifier struct {
	mu      sync.Mutex
	waiting map[int64]*topic
	// claims are the callers of ClaimExpired that wait, by the highest schema they know: what one of them leaves alone the others leave too.
	claims map[uint32]*claimQueue
}

// claimQueue is callers of ClaimExpired of whom one looks for due threads.
type claimQueue struct {
	// turn holds one token: the place of the one that looks.
	turn chan struct{}
	// wake has room for one signal to the one that looks.
	wake  chan struct{}
	users int
}

// topic is the waiters of one thread.
type topic struct {
	change chan struct{}
	users  int
}

func newNotifier() *notifier {
	return &notifier{waiting: make(map[int64]*topic), claims: make(map[uint32]*claimQueue)}
}

// send wakes those whom the notes concern. It never blocks.
func (n *notifier) send(notes []note) {
	if len(notes) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, what := range notes {
		if what == claimNote {
			for _, q := range n.claims {
				select {
				case q.wake <- struct{}{}:
				default:
				}
			}
			continue
		}
		if t := n.waiting[int64(what)]; t != nil {
			close(t.change)
			t.change = make(chan struct{})
		}
	}
}

// all wakes everybody.
func (n *notifier) all() {
	n.mu.Lock()
	notes := []note{claimNote}
	for id := range n.waiting {
		notes = append(notes, note(id))
	}
	n.mu.Unlock()
	n.send(notes)
}

// idle says that nobody waits.
func (n *notifier) idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting) == 0 && len(n.claims) == 0
}

// joinClaims takes a caller of ClaimExpired into its queue.
func (n *notifier) joinClaims(schema uint32) *claimQueue {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.claims[schema]
	if q == nil {
		q = &claimQueue{turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		n.claims[schema] = q
	}
	q.users++
	return q
}

// leaveClaims lets it go.
func (n *notifier) leaveClaims(schema uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.claims[schema]
	if q.users--; q.users == 0 {
		delete(n.claims, schema)
	}
}

// join begins to wait for a thread.
func (n *notifier) join(thread int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.waiting[thread]
	if t == nil {
		t = &topic{change: make(chan struct{})}
		n.waiting[thread] = t
	}
	t.users++
}

// next returns a channel that closes with the next change. Take it before looking at the store.
func (n *notifier) next(thread int64) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting[thread].change
}

// leave ends the wait.
func (n *notifier) leave(thread int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.waiting[thread]
	if t.users--; t.users == 0 {
		delete(n.waiting, thread)
	}
}

// watchOthers notices commits of other processes while somebody waits: SQLite's data version, as the writing connection sees it, changes with
// those and with nothing else.
func (s *Store) watchOthers() {
	tick := time.NewTicker(journal.Recheck)
	defer tick.Stop()
	var last int64
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		if s.notify.idle() {
			continue
		}
		var version int64
		err := s.write(context.Background(), func(t *tx) error {
			_, err := t.get("PRAGMA data_version", nil, &version)
			return err
		})
		// An error is no reason to be still: the waiters look themselves and report it.
		if err != nil || version != last {
			s.notify.all()
		}
		last = version
	}
}
