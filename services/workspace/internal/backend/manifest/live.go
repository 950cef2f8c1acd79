package manifest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// readAhead is how many entries are asked for at once.
	readAhead = 256
	// maxLoads is how often a space is loaded anew when its log changes under the reader.
	maxLoads = 4
	// lateFiles is how many replaced files a space remembers for readers who have found them a moment ago.
	lateFiles = 512
)

// live is a space that is held in memory.
type live struct {
	store *Store
	space files.Space
	users int   // guarded by the store
	bytes int64 // likewise
	turns turns

	mu      sync.Mutex // also guards cloning
	state   *state
	checked time.Time // when the state was the newest one for certain
	flying  *look
	next    *look
	late    map[string]*item
	lately  []string
	open    *batch // of the one who has the turn
	tending bool
}

// look is one question for newer entries, of all who have asked before it began.
type look struct {
	done  chan struct{}
	state *state
	err   error
}

// look returns the newest state: one that holds everything that was written before the call.
func (l *live) look(ctx context.Context) (*state, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	f := l.next
	if f == nil {
		f = &look{done: make(chan struct{})}
		l.next = f
		if l.flying == nil {
			l.launch()
		}
	}
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.state, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// launch begins the next look. With l.mu.
func (l *live) launch() {
	f := l.next
	l.flying, l.next = f, nil
	// The caller is in work until it has the answer or has gone away; the look is so itself.
	l.store.work.Go(func() {
		f.state, f.err = l.catchUp(l.store.ctx)
		if f.err != nil && l.store.ctx.Err() != nil {
			f.err = errClosed()
		}
		close(f.done)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flying = nil
		if l.next != nil {
			l.launch()
		}
	})
}

// known is the state at hand, however old; nil when there is none.
func (l *live) known() *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// catchUp applies the entries that are newer than the state at hand.
func (l *live) catchUp(ctx context.Context) (*state, error) {
	for try := 1; ; try++ {
		st, err := l.trusted(ctx)
		begun := time.Now()
		if err == nil && st == nil {
			st, err = l.load(ctx)
		}
		if err == nil {
			st, err = l.follow(ctx, st)
		}
		if err == nil {
			l.publish(st, begun)
			return st, nil
		}
		if !errors.Is(err, ErrLost) || try == maxLoads {
			if errors.Is(err, ErrLost) {
				err = errDamaged("log")
			}
			return nil, err
		}
		l.drop()
	}
}

// trusted is the state at hand, if its position is certain to be in the log still.
func (l *live) trusted(ctx context.Context) (*state, error) {
	l.mu.Lock()
	st, checked := l.state, l.checked
	l.mu.Unlock()
	if st == nil || !expired(checked, l.store.driver.Trust()) {
		return st, nil
	}
	marks, err := l.store.driver.Checkpoints(ctx, l.space)
	if err != nil {
		return nil, err
	}
	if n := len(marks); n > 0 && marks[n-1].Number > st.at.Number {
		l.drop()
		return nil, nil
	}
	return st, nil
}

// expired says whether a moment is longer ago than some time, by the clock that stands still while the machine sleeps or by the one that is set.
func expired(since time.Time, after time.Duration) bool {
	return after > 0 && (time.Since(since) > after || time.Now().Round(0).Sub(since.Round(0)) > after)
}

// load reads the newest checkpoint; when it is damaged, an older one, from which on the entries are still there.
func (l *live) load(ctx context.Context) (*state, error) {
	marks, err := l.store.driver.Checkpoints(ctx, l.space)
	if err != nil || len(marks) == 0 {
		return newState(), err
	}
	var damage error
	for _, m := range slices.Backward(marks) {
		data, err := l.store.driver.Checkpoint(ctx, l.space, m.Number)
		if err != nil {
			return nil, err
		}
		if data == nil {
			return nil, ErrLost // a newer one has taken its place
		}
		st, err := decodeState(data)
		if err == nil && st.at.Number == m.Number {
			return st, nil
		}
		l.store.cfg.Log.ErrorContext(ctx, "a checkpoint of a bucket is damaged", "space", l.space, "number", m.Number)
		if damage == nil {
			damage = errDamaged("checkpoint")
		}
	}
	return nil, damage
}

// follow applies what comes after a state.
func (l *live) follow(ctx context.Context, st *state) (*state, error) {
	for {
		entries, err := l.store.driver.After(ctx, l.space, st.at, readAhead)
		if err != nil || len(entries) == 0 {
			return st, err
		}
		st = l.clone(st)
		for _, e := range entries {
			n, err := decodeEntry(e.Data)
			if err != nil {
				return nil, err
			}
			if n.after != st.at.Nonce || n.at.Number != e.Number {
				return nil, ErrLost // another log by now
			}
			if err := st.applyEntry(n, l.note); err != nil {
				return nil, err
			}
		}
	}
}

func (l *live) clone(st *state) *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return st.clone()
}

// publish makes a state the one at hand, unless that is newer.
func (l *live) publish(st *state, checked time.Time) {
	l.mu.Lock()
	moved := l.state == nil || st.at.Number > l.state.at.Number
	if moved {
		l.state = st
	}
	if moved || st.at == l.state.at {
		l.checked = checked
	}
	l.mu.Unlock()
	if moved {
		l.store.weigh(l, st.size())
	}
}

// drop lets go of a state that is not in the log any more.
func (l *live) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = nil
}

// note remembers a file that is replaced: somebody may have found it a moment ago and read it a moment later.
func (l *live) note(it *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == nil {
		l.late = make(map[string]*item, lateFiles)
	}
	if _, known := l.late[it.Revision]; known {
		return
	}
	if len(l.lately) == lateFiles {
		for _, old := range l.lately[:lateFiles/2] {
			delete(l.late, old)
		}
		l.lately = append([]string(nil), l.lately[lateFiles/2:]...)
	}
	l.late[it.Revision] = it
	l.lately = append(l.lately, it.Revision)
}

// find returns the content of a node that a state gave out.
func (l *live) find(st *state, n files.Node) *item {
	if st != nil {
		if it := st.file(n.Path); it != nil && it.Revision == n.Revision {
			return it
		}
		if r := st.pastOf(n.Path, n.Revision); r != nil {
			return &r.item
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late[n.Revision]
}
