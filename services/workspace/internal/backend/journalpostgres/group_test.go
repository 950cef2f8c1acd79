package journalpostgres

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// A commit that the database refuses takes none of those with it that share its round trip.
func TestARefusedCommitFailsAlone(t *testing.T) {
	s, err := Open(t.Context(), Config{DSN: testkit.Postgres(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	owner := journal.Owner{ID: "test"}
	if _, err := s.Heartbeat(t.Context(), owner, false); err != nil {
		t.Fatal(err)
	}
	newCommit := func(session, kind string) *commit {
		key := identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: session}
		claim, err := s.Acquire(t.Context(), key, owner, true)
		if err != nil {
			t.Fatal(err)
		}
		b := journal.Batch{
			Owner: owner.ID, Epoch: claim.Head.Epoch, ID: "b", Expected: -1, Events: []journal.Event{{Schema: 1, ID: "e", Type: kind, Payload: []byte("{}")}},
		}
		return &commit{args: commitArgs(0, key, &b, b.Fingerprint()), answered: make(chan struct{})}
	}
	// The check of batches keeps NUL out; it stands for whatever a database may refuse.
	bad, good, other := newCommit("bad", "t\x00"), newCommit("good", "t"), newCommit("other", "t")
	s.db.commitGroup([]*commit{good, bad, other})
	for _, c := range []*commit{good, bad, other} {
		select {
		case <-c.answered:
		case <-time.After(10 * time.Second):
			t.Fatal("a commit got no answer")
		}
	}
	if bad.err == nil {
		t.Error("the database took a NUL")
	}
	for name, c := range map[string]*commit{"good": good, "other": other} {
		if c.err != nil || !c.done || c.head != 1 {
			t.Errorf("%s: done %v at %d, %v", name, c.done, c.head, c.err)
		}
	}
}
