package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalpostgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// journalOwner writes in these tests.
var journalOwner = journal.Owner{ID: "faults/1"}

func threadOf(session string) identity.Thread {
	return identity.Thread{Tenant: "t", Agent: "a", User: "ana", Session: session}
}

func openJournal(t *testing.T, url string) journal.Store {
	t.Helper()
	s, err := journalpostgres.Open(t.Context(), journalpostgres.Config{DSN: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// keepAlive has an owner live by way of a store that no fault hits.
func keepAlive(t *testing.T, s journal.Store) {
	t.Helper()
	beat := func() error {
		_, err := s.Heartbeat(t.Context(), journalOwner, false)
		return err
	}
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(journal.OwnerLife / 4)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = beat() // an owner that was given up shows in what it does next
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
}

// journalChange is one kind of change. All of it happens to a thread of its own, of n committed events.
type journalChange struct {
	name string
	// change makes it; a repeat is harmless.
	change func(ctx context.Context, s journal.Store, c journal.Claim) error
	// check fails unless it was made, once.
	check func(t *testing.T, s journal.Store, c journal.Claim) error
}

func event(id string, size int) journal.Event {
	return journal.Event{Schema: 1, ID: id, Type: "t", Payload: []byte(strings.Repeat("x", size))}
}

func commitOf(b journal.Batch) func(context.Context, journal.Store, journal.Claim) error {
	return func(ctx context.Context, s journal.Store, c journal.Claim) error {
		b.Owner, b.Epoch, b.ID, b.Expected = journalOwner.ID, c.Head.Epoch, "changed", 2
		_, err := s.Commit(ctx, c.Head.Thread, b)
		return err
	}
}

// holds checks the ids of a thread's events, which Read verifies as a chain.
func holds(ids ...string) func(*testing.T, journal.Store, journal.Claim) error {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		p, err := s.Read(t.Context(), c.Head.Thread, journal.ReadRequest{})
		if err != nil {
			return err
		}
		var got []string
		for _, e := range p.Events {
			got = append(got, e.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			return fmt.Errorf("the thread holds %v, want %v", got, ids)
		}
		return nil
	}
}

var journalChanges = []journalChange{
	{"commit", commitOf(journal.Batch{Events: []journal.Event{event("c1", 100), event("c2", 100)}}), holds("a", "b", "c1", "c2")},
	{"commit with blob and timer", commitOf(journal.Batch{
		Events: []journal.Event{event("c1", journal.InlinePayloadBytes+1)}, Mail: []journal.Mail{{ID: "m", Kind: "expiry"}},
	}), func(t *testing.T, s journal.Store, c journal.Claim) error {
		if err := holds("a", "b", "c1")(t, s, c); err != nil {
			return err
		}
		return mailbox(t, s, c, "m")
	}},
	{"post", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, _, err := s.Post(ctx, c.Head.Thread, journal.Mail{ID: "p", Kind: "input", Payload: []byte("hello")})
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error { return mailbox(t, s, c, "p") }},
	{"fork", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Fork(ctx, c.Head.Thread, 2, c.Head.Thread.Session+"-fork")
		if errors.Is(err, errdefs.ErrAlreadyExists) {
			return nil // by an attempt before
		}
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error {
		c.Head.Thread.Session += "-fork"
		return holds("a", "b")(t, s, c)
	}},
	{"redact", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Redact(ctx, c.Head.Thread, []int64{1}, "asked")
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error {
		p, err := s.Read(t.Context(), c.Head.Thread, journal.ReadRequest{})
		if err == nil && (len(p.Events) != 2 || len(p.Events[0].Payload) > 0 || len(p.Events[1].Payload) != 50) {
			err = fmt.Errorf("after the redaction: %+v", p.Events)
		}
		return err
	}},
	{"delete", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Delete(ctx, c.Head.Thread)
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error {
		if _, err := s.Head(t.Context(), c.Head.Thread); !errors.Is(err, errdefs.ErrNotFound) {
			return fmt.Errorf("the deleted thread: %w", err)
		}
		return nil
	}},
}

func mailbox(t *testing.T, s journal.Store, c journal.Claim, id string) error {
	mail, err := s.ListMail(t.Context(), c.Head.Thread, 10, true)
	if err == nil && (len(mail) != 1 || mail[0].ID != id) {
		err = fmt.Errorf("the mailbox holds %+v, want %s once", mail, id)
	}
	return err
}

// begin makes the thread of a change.
func beginThread(t *testing.T, s journal.Store, session string) journal.Claim {
	t.Helper()
	c, err := s.Acquire(t.Context(), threadOf(session), journalOwner, true)
	if err == nil {
		b := journal.Batch{Owner: journalOwner.ID, Epoch: c.Head.Epoch, ID: "begin", Expected: 0, Events: []journal.Event{event("a", 50), event("b", 50)}}
		_, err = s.Commit(t.Context(), c.Head.Thread, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func unknown(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// TestJournalCutConnections cuts all connections of the journal at each piece of a change: it is whole or absent, and its repeat makes it once.
func TestJournalCutConnections(t *testing.T) {
	server := testkit.Postgres(t)
	p, url := startProxy(t, server)
	sound := openJournal(t, server)
	keepAlive(t, sound)
	store := openJournal(t, url)
	cuts := 0
	for _, ch := range journalChanges {
		for n := 0; ; n = further(n) {
			c := beginThread(t, sound, fmt.Sprint(ch.name, n))
			p.cutAfter(n)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := ch.change(ctx, store, c)
			cancel()
			left := p.cutAfter(-1)
			if err != nil && !unknown(err) {
				t.Errorf("%s, cut at piece %d: %v", ch.name, n, err)
			}
			if err == nil {
				if err := ch.check(t, sound, c); err != nil {
					t.Fatalf("%s, cut at piece %d: acknowledged, and %v", ch.name, n, err)
				}
			}
			testkit.Eventually(t, 20*time.Second, func() error { return ch.change(t.Context(), store, c) })
			if err := ch.check(t, sound, c); err != nil {
				t.Fatalf("%s, cut at piece %d, repeat: %v", ch.name, n, err)
			}
			if cuts++; left >= 0 || n > 60 {
				break // all of it was passed on
			}
		}
	}
	t.Logf("%d cuts", cuts)
}
