package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// TestJournalFrozenPostgres stops the server in the middle of changes of the journal: they end with a typed error when their time is over, and are made once when they are repeated.
func TestJournalFrozenPostgres(t *testing.T) {
	if os.Getenv(testkit.PostgresEnv) != "" {
		t.Skip("the server is not this test's to freeze")
	}
	url := testkit.Postgres(t)
	store := openJournal(t, url)
	for _, ch := range journalChanges {
		if _, err := store.Heartbeat(t.Context(), journalOwner, false); err != nil {
			t.Fatal(err)
		}
		c := beginThread(t, store, ch.name)
		thaw := freeze(t, url)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), frozenFor)
		err := ch.change(ctx, store, c)
		cancel()
		took := time.Since(started)
		thaw()
		if !unknown(err) {
			t.Errorf("%s: %v", ch.name, err)
		}
		if took > frozenFor+2*time.Second {
			t.Errorf("%s: the call ended %s after its deadline", ch.name, took-frozenFor)
		}
		testkit.Eventually(t, 20*time.Second, func() error { return ch.whole(t, store, c) })
		for range 2 {
			testkit.Eventually(t, 20*time.Second, func() error { return ch.change(t.Context(), store, c) })
			if err := ch.made(t, store, c); err != nil {
				t.Errorf("%s, repeat: %v", ch.name, err)
			}
		}
	}
}

// frozenWriters commit at the same time, so that their commits share round trips.
const frozenWriters = 12

// TestJournalFrozenDuringCommits stops the server while many commit: each call ends in its time, and the repeat of each batch under its id has one outcome.
func TestJournalFrozenDuringCommits(t *testing.T) {
	if os.Getenv(testkit.PostgresEnv) != "" {
		t.Skip("the server is not this test's to freeze")
	}
	url := testkit.Postgres(t)
	store := openJournal(t, url)
	var claims []journal.Claim
	for i := range frozenWriters {
		// No heartbeat after this one: a late one would end the owner's life, a clock alone refuses nothing.
		if _, err := store.Heartbeat(t.Context(), journalOwner, false); err != nil {
			t.Fatal(err)
		}
		claims = append(claims, beginThread(t, store, fmt.Sprint("s", i)))
	}
	var acknowledged atomic.Int64
	frozen := make(chan struct{})
	var wait sync.WaitGroup
	last := make([]int, frozenWriters) // the last batch of each writer, the one that was not acknowledged
	batch := func(c journal.Claim, n int) journal.Batch {
		return journal.Batch{
			Owner: journalOwner.ID, Epoch: c.Head.Epoch, ID: fmt.Sprint(n), Expected: -1,
			Events: []journal.Event{event(fmt.Sprint(n, ".0"), 100), event(fmt.Sprint(n, ".1"), 100)},
		}
	}
	for i, c := range claims {
		wait.Go(func() {
			for ; ; last[i]++ {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), frozenFor)
				_, err := store.Commit(ctx, c.Head.Thread, batch(c, last[i]))
				cancel()
				if took := time.Since(began); took > frozenFor+2*time.Second {
					t.Errorf("a commit ended %s after its deadline", took-frozenFor)
				}
				if err == nil {
					acknowledged.Add(1)
					continue
				}
				if !unknown(err) {
					t.Errorf("%s: %v", c.Head.Thread, err)
				}
				select {
				case <-frozen:
					return
				default:
					last[i]-- // a slow machine, before the server was frozen: the same batch again
				}
			}
		})
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if n := acknowledged.Load(); n < 10*frozenWriters {
			return fmt.Errorf("%d commits", n)
		}
		return nil
	})
	thaw := freeze(t, url)
	close(frozen)
	wait.Wait()
	thaw()
	made := 0
	for i, c := range claims {
		if chainOf(t, store, c, last[i]) > 2*last[i]+2 {
			made++
		}
		for range 2 {
			testkit.Eventually(t, 20*time.Second, func() error {
				_, err := store.Commit(t.Context(), c.Head.Thread, batch(c, last[i]))
				return err
			})
		}
		if n := chainOf(t, store, c, last[i]); n != 2*last[i]+4 {
			t.Errorf("%s holds %d events after %d batches", c.Head.Thread, n, last[i]+2)
		}
	}
	t.Logf("%d commits acknowledged; of %d that were not, %d were made", acknowledged.Load(), frozenWriters, made)
}

// chainOf reads and verifies a thread: the batch that began it and then whole batches in the order of their numbers, up to last. It returns the number of events.
func chainOf(t *testing.T, s journal.Store, c journal.Claim, last int) (n int) {
	t.Helper()
	want := []string{"a", "b"}
	for i := range last + 1 {
		want = append(want, fmt.Sprint(i, ".0"), fmt.Sprint(i, ".1"))
	}
	var got []string
	if _, _, err := journal.Scan(t.Context(), s, c.Head.Thread, 0, 0, nil, func(e journal.Event) error {
		got = append(got, e.ID)
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", c.Head.Thread, err)
	}
	if n = len(got); n%2 != 0 || n < 2*last+2 || n > len(want) || !slices.Equal(got, want[:n]) {
		t.Fatalf("%s holds %q, want %q, the last two of which may be missing", c.Head.Thread, got, want)
	}
	return n
}
