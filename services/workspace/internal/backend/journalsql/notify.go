package journalsql

import "sync"

// Note says what a transaction changed: a thread's journal (its id), or, as ClaimNote, that a thread may have become due.
type Note int64

const ClaimNote Note = 0

// changed notes that the journal of a thread grew or ended.
func (t *Tx) changed(thread int64) { t.Notes = append(t.Notes, Note(thread)) }

// due notes that a thread may be due.
func (t *Tx) due() { t.Notes = append(t.Notes, ClaimNote) }

// Notifier wakes the waiters of this process.
type Notifier struct {
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

// NewNotifier returns one without waiters.
func NewNotifier() *Notifier {
	return &Notifier{waiting: make(map[int64]*topic), claims: make(map[uint32]*claimQueue)}
}

// Send wakes those whom the notes concern. It never blocks.
func (n *Notifier) Send(notes []Note) {
	if len(notes) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, what := range notes {
		if what == ClaimNote {
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

// All wakes everybody.
func (n *Notifier) All() {
	n.mu.Lock()
	notes := []Note{ClaimNote}
	for id := range n.waiting {
		notes = append(notes, Note(id))
	}
	n.mu.Unlock()
	n.Send(notes)
}

// Idle says that nobody waits.
func (n *Notifier) Idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting) == 0 && len(n.claims) == 0
}

// joinClaims takes a caller of ClaimExpired into its queue.
func (n *Notifier) joinClaims(schema uint32) *claimQueue {
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
func (n *Notifier) leaveClaims(schema uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.claims[schema]
	if q.users--; q.users == 0 {
		delete(n.claims, schema)
	}
}

// join begins to wait for a thread.
func (n *Notifier) join(thread int64) {
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
func (n *Notifier) next(thread int64) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting[thread].change
}

// leave ends the wait.
func (n *Notifier) leave(thread int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.waiting[thread]
	if t.users--; t.users == 0 {
		delete(n.waiting, thread)
	}
}

// Waiting returns the threads that somebody waits for.
func (n *Notifier) Waiting() []int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := make([]int64, 0, len(n.waiting))
	for id := range n.waiting {
		ids = append(ids, id)
	}
	return ids
}
