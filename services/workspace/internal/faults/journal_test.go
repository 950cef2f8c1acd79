package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
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

// journalCheck looks at what a change was made to.
type journalCheck func(t *testing.T, s journal.Store, c journal.Claim) error

// journalChange is one kind of change. All of it happens to a thread of its own, of two committed events.
type journalChange struct {
	name string
	// change makes it; a repeat is harmless.
	change func(ctx context.Context, s journal.Store, c journal.Claim) error
	// made fails unless it was made, once; absent unless nothing of it was.
	made, absent journalCheck
}

// whole fails when the change was made in part.
func (ch journalChange) whole(t *testing.T, s journal.Store, c journal.Claim) error {
	made := ch.made(t, s, c)
	if made == nil {
		return nil
	}
	if absent := ch.absent(t, s, c); absent != nil {
		return fmt.Errorf("neither made (%w) nor absent (%w)", made, absent)
	}
	return nil
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

// every checks several things.
func every(checks ...journalCheck) journalCheck {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		for _, check := range checks {
			if err := check(t, s, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// in checks another session of the same user: that of the thread's name and more.
func in(suffix string, check journalCheck) journalCheck {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		c.Head.Thread.Session += suffix
		return check(t, s, c)
	}
}

// missing checks that the thread does not exist.
func missing(t *testing.T, s journal.Store, c journal.Claim) error {
	if head, err := s.Head(t.Context(), c.Head.Thread); !errors.Is(err, errdefs.ErrNotFound) {
		return fmt.Errorf("the thread is there, %+v: %w", head, err)
	}
	return nil
}

// owned checks who holds the thread and in which epoch.
func owned(owner string, epoch int64) journalCheck {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		head, err := s.Head(t.Context(), c.Head.Thread)
		if err == nil && (head.Owner.ID != owner || head.Epoch != epoch) {
			err = fmt.Errorf("owner %q in epoch %d, want %q in %d", head.Owner.ID, head.Epoch, owner, epoch)
		}
		return err
	}
}

// payloads checks the length of each event's payload.
func payloads(sizes ...int) journalCheck {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		p, err := s.Read(t.Context(), c.Head.Thread, journal.ReadRequest{})
		if err != nil {
			return err
		}
		var got []int
		for _, e := range p.Events {
			got = append(got, len(e.Payload))
		}
		if !slices.Equal(got, sizes) {
			err = fmt.Errorf("the payloads have %d bytes, want %d", got, sizes)
		}
		return err
	}
}

// mailbox checks the ids of the messages that are not consumed.
func mailbox(ids ...string) journalCheck {
	return func(t *testing.T, s journal.Store, c journal.Claim) error {
		mail, err := s.ListMail(t.Context(), c.Head.Thread, 10, true)
		if err != nil {
			return err
		}
		var got []string
		for _, m := range mail {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, ids) {
			err = fmt.Errorf("the mailbox holds %q, want %q", got, ids)
		}
		return err
	}
}

// blobOf is what a thread's change puts.
func blobOf(c journal.Claim) []byte {
	return bytes.Repeat([]byte(c.Head.Thread.Session+"."), 10_000)
}

// holds checks the ids of a thread's events, which Read verifies as a chain.
func holds(ids ...string) journalCheck {
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
	{"commit", commitOf(journal.Batch{Events: []journal.Event{event("c1", 100), event("c2", 100)}}), holds("a", "b", "c1", "c2"), holds("a", "b")},
	{
		"commit with blob and timer",
		commitOf(journal.Batch{Events: []journal.Event{event("c1", journal.InlinePayloadBytes+1)}, Mail: []journal.Mail{{ID: "m", Kind: "expiry"}}}),
		every(holds("a", "b", "c1"), payloads(50, 50, journal.InlinePayloadBytes+1), mailbox("m")), every(holds("a", "b"), mailbox()),
	},
	{"post", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, _, err := s.Post(ctx, c.Head.Thread, journal.Mail{ID: "p", Kind: "input", Payload: []byte("hello")})
		return err
	}, mailbox("p"), mailbox()},
	{"post that makes the thread", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		c.Head.Thread.Session += "-new"
		_, _, err := s.Post(ctx, c.Head.Thread, journal.Mail{ID: "p", Kind: "input", Payload: []byte("hello")})
		return err
	}, in("-new", mailbox("p")), in("-new", missing)},
	{"acquire", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		c.Head.Thread.Session += "-new"
		_, err := s.Acquire(ctx, c.Head.Thread, journalOwner, false)
		return err
	}, in("-new", owned(journalOwner.ID, 1)), in("-new", missing)},
	{"release", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		return s.Release(ctx, c.Head.Thread, journalOwner.ID, c.Head.Epoch)
	}, owned("", 1), owned(journalOwner.ID, 1)},
	{"fork", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Fork(ctx, c.Head.Thread, 2, c.Head.Thread.Session+"-fork")
		if errors.Is(err, errdefs.ErrAlreadyExists) {
			return nil // by an attempt before
		}
		return err
	}, in("-fork", every(holds("a", "b"), payloads(50, 50))), in("-fork", missing)},
	{"redact", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Redact(ctx, c.Head.Thread, []int64{1}, "asked")
		return err
	}, payloads(0, 50), payloads(50, 50)},
	{"delete", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.Delete(ctx, c.Head.Thread)
		return err
	}, missing, every(holds("a", "b"), payloads(50, 50))},
	{"put a blob", func(ctx context.Context, s journal.Store, c journal.Claim) error {
		_, err := s.PutBlob(ctx, c.Head.Thread.Tenant, blobOf(c))
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error {
		got, err := s.GetBlob(t.Context(), c.Head.Thread.Tenant, journal.HashOf(blobOf(c)))
		if err == nil && !bytes.Equal(got, blobOf(c)) {
			err = fmt.Errorf("the blob has %d bytes", len(got))
		}
		return err
	}, func(t *testing.T, s journal.Store, c journal.Claim) error {
		if _, err := s.GetBlob(t.Context(), c.Head.Thread.Tenant, journal.HashOf(blobOf(c))); !errors.Is(err, errdefs.ErrNotFound) {
			return fmt.Errorf("the blob: %w", err)
		}
		return nil
	}},
}

// beginThread makes the thread of a change.
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
	cuts, made := 0, 0
	for _, ch := range journalChanges {
		for n := 0; ; n = further(n) {
			c := beginThread(t, sound, fmt.Sprint(ch.name, n))
			p.cutAfter(n)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := ch.change(ctx, store, c)
			cancel()
			left := p.cutAfter(-1)
			switch {
			case err == nil:
				if err := ch.made(t, sound, c); err != nil {
					t.Fatalf("%s, cut at piece %d: acknowledged, and %v", ch.name, n, err)
				}
			case !errors.Is(err, errdefs.ErrUnavailable):
				t.Errorf("%s, cut at piece %d: %v", ch.name, n, err)
			}
			// The server may be at it still: what it does then becomes whole by itself.
			testkit.Eventually(t, 20*time.Second, func() error { return ch.whole(t, sound, c) })
			if ch.made(t, sound, c) == nil {
				made++
			}
			for range 2 {
				testkit.Eventually(t, 20*time.Second, func() error { return ch.change(t.Context(), store, c) })
				if err := ch.made(t, sound, c); err != nil {
					t.Fatalf("%s, cut at piece %d, repeat: %v", ch.name, n, err)
				}
			}
			if cuts++; left >= 0 || n > 60 {
				break // all of it was passed on
			}
		}
	}
	t.Logf("%d cuts, %d changes were made all the same", cuts, made)
}
