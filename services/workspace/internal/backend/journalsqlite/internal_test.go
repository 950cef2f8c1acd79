package journalsqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t *testing.T) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "journal.db"))
}

// block makes the writer wait, so that operations queue up behind, until the returned function is called.
func block(t *testing.T, s *Store) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.file.Write(context.Background(), func(*journalsql.Tx) error { close(begun); <-end; return nil })
	}()
	<-begun
	return sync.OnceFunc(func() { close(end) })
}

// queued waits until n operations are in the queue.
func queued(s *Store, n int) {
	for {
		s.file.writer.mu.Lock()
		have := len(s.file.writer.queue)
		s.file.writer.mu.Unlock()
		if have >= n {
			return
		}
		runtime.Gosched()
	}
}

// TestAGroupIsUndoneOneByOne puts operations that succeed, are refused, fail in the store and panic into one transaction: each gets its own answer, and only the
// good ones leave something.
func TestAGroupIsUndoneOneByOne(t *testing.T) {
	s := fresh(t)
	release := block(t, s)
	refusal := journal.Owned(journal.Owner{ID: "o"})
	insert := func(name string, then func(*journalsql.Tx) error) func(*journalsql.Tx) error {
		return func(t *journalsql.Tx) error {
			if _, err := t.Exec("INSERT INTO owners (name, address, expire, state) VALUES (?, '', 0, 2)", name); err != nil {
				return err
			}
			return then(t)
		}
	}
	ops := map[string]func(*journalsql.Tx) error{
		"good":    insert("good", func(*journalsql.Tx) error { return nil }),
		"refused": insert("refused", func(*journalsql.Tx) error { return refusal }),
		"broken": insert("broken", func(t *journalsql.Tx) error {
			_, err := t.Exec("INSERT INTO owners (id) VALUES ('x')")
			return err
		}),
		"panics": insert("panics", func(*journalsql.Tx) error { panic("a fault") }),
		"also":   insert("also", func(*journalsql.Tx) error { return nil }),
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	errs := make(map[string]error)
	for name, op := range ops {
		wait.Go(func() {
			err := s.file.Write(context.Background(), op)
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	queued(s, len(ops))
	release()
	wait.Wait()
	if errs["good"] != nil || errs["also"] != nil || !errors.Is(errs["refused"], refusal) ||
		errdefs.ClassOf(errs["broken"]) != errdefs.ErrInternal || errdefs.ClassOf(errs["panics"]) != errdefs.ErrInternal {
		t.Errorf("answers %v", errs)
	}
	for name := range ops {
		var there bool
		err := s.file.Read(context.Background(), func(r *journalsql.View) error {
			_, err := r.Get("SELECT EXISTS (SELECT 1 FROM owners WHERE name = ?)", []any{name}, &there)
			return err
		})
		if want := name == "good" || name == "also"; err != nil || there != want {
			t.Errorf("%s: there %v, want %v (%v)", name, there, want, err)
		}
	}
}

// TestTheQueueIsBounded fills the queue: what is over is refused at once, a caller that leaves takes its operation along, the rest is done.
func TestTheQueueIsBounded(t *testing.T) {
	s := fresh(t)
	release := block(t, s)
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	ran := false
	go func() { left <- s.file.Write(ctx, func(*journalsql.Tx) error { ran = true; return nil }) }()
	queued(s, 1)
	var wait sync.WaitGroup
	done := make(chan error, maxQueue)
	for range maxQueue - 1 {
		wait.Go(func() { done <- s.file.Write(context.Background(), func(*journalsql.Tx) error { return nil }) })
	}
	queued(s, maxQueue)
	err := s.file.Write(context.Background(), func(*journalsql.Tx) error { return nil })
	var typed *errdefs.Error
	if !errors.As(err, &typed) || typed.Class != errdefs.ErrUnavailable || typed.RetryAfter == 0 {
		t.Errorf("over the bound: %v", err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	release()
	wait.Wait()
	close(done)
	for err := range done {
		if err != nil {
			t.Fatal(err)
		}
	}
	if ran {
		t.Error("the operation of the caller that left was run")
	}
}

// TestRemovalsAreFinished ends a deletion after its first transaction, as a crash would: the thread is unknown, and opening the store removes the rest.
func TestRemovalsAreFinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := openAt(t, path)
	ctx := context.Background()
	key := identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s"}
	owner := journal.Owner{ID: "r/a"}
	if _, err := s.Heartbeat(ctx, owner, false); err != nil {
		t.Fatal(err)
	}
	c, err := s.Acquire(ctx, key, owner, false)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		b := journal.Batch{Owner: owner.ID, Epoch: c.Head.Epoch, ID: fmt.Sprint(n), Expected: -1, Mail: []journal.Mail{{ID: fmt.Sprint(n), Kind: "k"}}}
		for k := range 200 {
			b.Events = append(b.Events, journal.Event{Schema: 1, ID: fmt.Sprint(n, k), Type: "t", Payload: make([]byte, 10)})
		}
		b.Events[0].Payload = make([]byte, journal.InlinePayloadBytes+n+1)
		if _, err := s.Commit(ctx, key, b); err != nil {
			t.Fatal(err)
		}
	}
	err = s.file.Write(ctx, func(t *journalsql.Tx) error {
		_, err := t.Remove(key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(ctx, key); errdefs.ReasonOf(err) != journal.ReasonThreadNotFound {
		t.Errorf("after the first transaction: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	for _, table := range []string{"threads", "logs", "events", "batches", "mail", "blobs", "blob_data", "blob_refs", "removals"} {
		var rows int
		err := s.file.Read(ctx, func(r *journalsql.View) error {
			_, err := r.Get("SELECT count(*) FROM "+table, nil, &rows)
			return err
		})
		if err != nil || rows != 0 {
			t.Errorf("%s has %d rows left (%v)", table, rows, err)
		}
	}
}

// TestAClockThatIsSetBack has a clock that was an hour ahead: neither timers nor expiries wait for that hour to come again.
func TestAClockThatIsSetBack(t *testing.T) {
	clock := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	move := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(d)
	}
	s, err := Open(context.Background(), Config{Path: filepath.Join(t.TempDir(), "journal.db"), Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return clock
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	old, next := journal.Owner{ID: "r1/a"}, journal.Owner{ID: "r2/b"}
	beat := func(o journal.Owner) {
		t.Helper()
		if _, err := s.Heartbeat(ctx, o, false); err != nil {
			t.Fatal(err)
		}
	}
	key := identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s"}
	move(time.Hour)
	beat(old)
	c, err := s.Acquire(ctx, key, old, false)
	if err != nil {
		t.Fatal(err)
	}
	b := journal.Batch{Owner: old.ID, Epoch: c.Head.Epoch, ID: "b", Expected: 0, Run: journal.Run{ID: "r", State: journal.RunRunning}}
	if _, err := s.Commit(ctx, key, b); err != nil {
		t.Fatal(err)
	}
	move(-time.Hour)
	beat(next)
	move(journal.OwnerLife - 1)
	beat(next)
	claim := func() int {
		t.Helper()
		claims, err := s.ClaimExpired(ctx, journal.ClaimRequest{Owner: next, Max: 1, MaxSchema: 1})
		if err != nil {
			t.Fatal(err)
		}
		return len(claims)
	}
	if claim() != 0 {
		t.Error("the owner lost its life with the clock")
	}
	move(1)
	if claim() != 1 {
		t.Error("the owner lives on in the hour that the clock was ahead")
	}
}

// TestTenThousandThreads has one owner of ten thousand threads with open runs: one heartbeat keeps them, and when it dies they are all handed out, in
// attempts that are bounded.
func TestTenThousandThreads(t *testing.T) {
	const threads = 10_000
	s := fresh(t)
	ctx := context.Background()
	owner := journal.Owner{ID: "r1/a"}
	beat := func(o journal.Owner) {
		if _, err := s.Heartbeat(ctx, o, false); err != nil {
			t.Error(err)
		}
	}
	var wait sync.WaitGroup
	for worker := range 50 {
		wait.Go(func() {
			for i := worker; i < threads; i += 50 {
				beat(owner)
				key := identity.Thread{Tenant: fmt.Sprint("t", i%7), Agent: "a", User: "u", Session: fmt.Sprint(i)}
				c, err := s.Acquire(ctx, key, owner, false)
				if err != nil {
					t.Error(err)
					return
				}
				b := journal.Batch{Owner: owner.ID, Epoch: c.Head.Epoch, ID: "b", Expected: 0, Run: journal.Run{ID: "r", State: journal.RunRunning}}
				if _, err := s.Commit(ctx, key, b); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	beat(owner)
	next := journal.Owner{ID: "r2/b"}
	beat(next)
	claims, err := s.ClaimExpired(ctx, journal.ClaimRequest{Owner: next, Max: journal.MaxClaims, MaxSchema: 1})
	if err != nil || len(claims) != 0 {
		t.Fatalf("%d claims while the owner lives, %v", len(claims), err)
	}
	if _, err := s.Heartbeat(ctx, owner, true); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for len(got) < threads {
		beat(next)
		claims, err := s.ClaimExpired(ctx, journal.ClaimRequest{Owner: next, Max: journal.MaxClaims, MaxSchema: 1})
		if err != nil || len(claims) == 0 {
			t.Fatalf("after %d threads: %d claims, %v", len(got), len(claims), err)
		}
		for _, c := range claims {
			got[c.Head.Thread.Key()] = true
			if c.Head.Epoch != 2 || c.Previous.ID != owner.ID {
				t.Fatalf("claim %+v", c)
			}
		}
	}
}
