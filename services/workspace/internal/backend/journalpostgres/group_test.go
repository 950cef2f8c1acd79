package journalpostgres

import (
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// openOwned opens an empty journal with a living owner.
func openOwned(t *testing.T) (*Store, journal.Owner) {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: testkit.Postgres(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	owner := journal.Owner{ID: "test"}
	if _, err := s.Heartbeat(t.Context(), owner, false); err != nil {
		t.Fatal(err)
	}
	return s, owner
}

// A commit that the database refuses takes none of those with it that share its round trip.
func TestARefusedCommitFailsAlone(t *testing.T) {
	s, owner := openOwned(t)
	newCommit := func(session, kind string) *commit {
		key := identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: session}
		claim, err := s.Acquire(t.Context(), key, owner, true)
		if err != nil {
			t.Fatal(err)
		}
		b := journal.Batch{
			Owner: owner.ID, Epoch: claim.Head.Epoch, ID: "b", Expected: -1, Events: []journal.Event{{Schema: 1, ID: "e", Type: kind, Payload: []byte("{}")}},
		}
		return &commit{key: key.Key(), batch: &b, hash: b.Fingerprint(), answered: make(chan struct{})}
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

// Commits that share a round trip keep the order in which they came, whichever way each of them is made, and what a commit would not get alone it does not get in a group.
func TestAGroupIsMadeInOrder(t *testing.T) {
	s, owner := openOwned(t)
	keys := map[string]identity.Thread{}
	epochs := map[string]int64{}
	for _, session := range []string{"one", "two", "three"} {
		keys[session] = identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: session}
		claim, err := s.Acquire(t.Context(), keys[session], owner, true)
		if err != nil {
			t.Fatal(err)
		}
		epochs[session] = claim.Head.Epoch
	}
	if _, _, err := s.Post(t.Context(), keys["two"], journal.Mail{ID: "m", Kind: "input"}); err != nil {
		t.Fatal(err)
	}
	newCommit := func(session, id string, expected int64, change func(*journal.Batch)) *commit {
		b := journal.Batch{Owner: owner.ID, Epoch: epochs[session], ID: id, Expected: expected, Events: []journal.Event{
			{Schema: 1, ID: id + ".0", Type: "t", Payload: []byte("{}")}, {Schema: 1, ID: id + ".1", Type: "t"},
		}}
		if change != nil {
			change(&b)
		}
		if err := b.Validate(); err != nil { // it fills in the hashes
			t.Fatal(err)
		}
		return &commit{key: keys[session].Key(), batch: &b, hash: b.Fingerprint(), answered: make(chan struct{})}
	}
	consume := func(b *journal.Batch) { b.Consume = []string{"m"} }
	late := func(b *journal.Batch) { b.Epoch++ }
	stranger := func(b *journal.Batch) { b.Owner = "other" }
	group := []struct {
		*commit
		head int64 // 0: not made
	}{
		{newCommit("one", "a", 0, nil), 2},
		{newCommit("two", "a", 0, consume), 2},
		{newCommit("one", "b", 2, nil), 4},
		{newCommit("two", "b", 2, nil), 4},
		{newCommit("three", "a", 1, nil), 0},
		{newCommit("three", "b", -1, late), 0},
		{newCommit("three", "c", -1, stranger), 0},
		{newCommit("one", "a", -1, nil), 0}, // a repeat, which the rules answer
		{newCommit("three", "d", 0, nil), 2},
	}
	var commits []*commit
	for _, c := range group {
		commits = append(commits, c.commit)
	}
	s.db.commitGroup(commits)
	for i, c := range group {
		if c.err != nil || c.done != (c.head > 0) || c.done && c.commit.head != c.head {
			t.Errorf("commit %d (%s): done %v at %d, want %d: %v", i, c.batch.ID, c.done, c.commit.head, c.head, c.err)
		}
	}
	for session, want := range map[string][]string{
		"one": {"a.0", "a.1", "b.0", "b.1"}, "two": {"a.0", "a.1", "b.0", "b.1"}, "three": {"d.0", "d.1"},
	} {
		var got []string
		if _, _, err := journal.Scan(t.Context(), s, keys[session], 0, 0, nil, func(e journal.Event) error {
			got = append(got, e.ID)
			return nil
		}); err != nil {
			t.Errorf("%s: %v", session, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s holds %q, want %q", session, got, want)
		}
	}
}
