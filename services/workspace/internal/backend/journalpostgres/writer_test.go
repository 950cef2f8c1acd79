package journalpostgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func named(session string) identity.Thread {
	return identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: session}
}

// writer holds a thread and commits to it.
type writer struct {
	store journal.Store
	claim journal.Claim
	n     int
}

func newWriter(tb testing.TB, s journal.Store, t identity.Thread) *writer {
	tb.Helper()
	owner := journal.Owner{ID: "test/" + t.Session}
	if _, err := s.Heartbeat(tb.Context(), owner, false); err != nil {
		tb.Fatal(err)
	}
	claim, err := s.Acquire(tb.Context(), t, owner, true)
	if err != nil {
		tb.Fatal(err)
	}
	return &writer{store: s, claim: claim}
}

func (w *writer) batch(payloads ...string) journal.Batch {
	w.n++
	b := journal.Batch{Owner: w.claim.Head.Owner.ID, Epoch: w.claim.Head.Epoch, ID: fmt.Sprint("b", w.n), Expected: -1}
	for i, p := range payloads {
		b.Events = append(b.Events, journal.Event{Schema: 1, ID: fmt.Sprint(w.n, ".", i), Type: "t", Payload: []byte(p)})
	}
	return b
}

func (w *writer) commit(tb testing.TB, payloads ...string) {
	tb.Helper()
	if _, err := w.store.Commit(tb.Context(), w.claim.Head.Thread, w.batch(payloads...)); err != nil {
		tb.Fatal(err)
	}
}

// ownMany gives the owner n threads with open runs, and keeps it alive meanwhile.
func ownMany(tb testing.TB, s journal.Store, owner journal.Owner, n int) {
	tb.Helper()
	const workers = 20
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < n; i += workers {
				key := identity.Thread{Tenant: fmt.Sprint("t", i%7), Agent: "a", User: "u", Session: fmt.Sprint(owner.ID, i)}
				_, err := s.Heartbeat(tb.Context(), owner, false)
				if err != nil {
					tb.Error(err)
					return
				}
				c, err := s.Acquire(tb.Context(), key, owner, false)
				if err != nil {
					tb.Error(err)
					return
				}
				b := journal.Batch{Owner: owner.ID, Epoch: c.Head.Epoch, ID: "b", Expected: 0, Run: journal.Run{ID: "r", State: journal.RunRunning}}
				if _, err := s.Commit(tb.Context(), key, b); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}
