package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// never is how often the stores of these tests look: who is woken was told.
	never = time.Hour
	// soon is how long a replica may take to be told, on any machine; half of them take no more than prompt.
	soon, prompt = 20 * time.Second, time.Second
)

func replica(t *testing.T, dsn string) *sqlstore.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, PollEvery: never}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s files.Store, space files.Space, name string) {
	t.Helper()
	staged, err := s.Stage(t.Context(), strings.NewReader(name), 0)
	if err != nil {
		t.Fatal(err)
	}
	view := files.NewView(s, space, nil, files.Limits{}, time.Now)
	if _, err := view.Write(t.Context(), files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(name)}, staged); err != nil {
		t.Fatal(err)
	}
}

// watch waits for a change of a space and sends what Wait says once the space has changed; a wake for nothing is waited out.
func watch(t *testing.T, s files.Store, space files.Space) <-chan error {
	t.Helper()
	head, err := s.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	go func() {
		for {
			err := s.Wait(ctx, space, head)
			if now, _ := s.Head(ctx, space); err != nil || now != head {
				done <- err
				return
			}
		}
	}()
	return done
}

// woken makes a change and returns how long it took until all replicas were woken for it.
func woken(t *testing.T, space files.Space, change func(), replicas ...*sqlstore.Store) time.Duration {
	t.Helper()
	var watched []<-chan error
	for _, s := range replicas {
		watched = append(watched, watch(t, s, space))
	}
	change()
	begun := time.Now()
	for i, done := range watched {
		if err := <-done; err != nil {
			t.Errorf("nobody told replica %d of a change of %q: %v", i, space, err)
		}
	}
	return time.Since(begun)
}

// Names that one another's patterns, prefixes or encodings might match.
var spaces = []files.Space{
	"default/user/coder/ana", "default/user/coder/an", "default/user/coder/a na", "default/user/coder/a%2Fb", "default/user/coder/a:b", "default/user/coder/a_b", "default/user/coder/%",
	"default/user/coder/*", "default/user/coder/" + files.Space(strings.Repeat("é", 100)),
}

func TestReplicasTellEachOther(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b, c := replica(t, dsn), replica(t, dsn), replica(t, dsn)
	var took []time.Duration
	for _, space := range spaces {
		put(t, b, space, "first")
		took = append(took, woken(t, space, func() { put(t, b, space, "second") }, a, b, c))
		took = append(took, woken(t, space, func() {
			if _, err := a.Forget(t.Context(), space); err != nil {
				t.Fatal(err)
			}
		}, a, b, c))
	}
	slices.Sort(took)
	t.Logf("told after %s to %s", took[0], took[len(took)-1])
	if median := took[len(took)/2]; median > prompt {
		t.Errorf("half of the replicas were told after %s or more, want %s", median, prompt)
	}
}

// Who waits for one space is not told of the others.
func TestReplicasTellOfOneSpace(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b := replica(t, dsn), replica(t, dsn)
	const space = "default/user/coder/an"
	woken(t, space, func() { put(t, b, space, "first") }, a) // a listens from here on
	head, err := a.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Wait(t.Context(), space, head) }()
	for _, other := range spaces {
		if other == space {
			continue
		}
		woken(t, other, func() { put(t, b, other, "other") }, a)
		select {
		case err := <-done:
			t.Fatalf("a change of %q woke who waits for %q: %v", other, space, err)
		default:
		}
	}
	put(t, b, space, "second")
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(soon):
		t.Error("the change of the space itself woke nobody")
	}
}

// A connection that is cut is made again, and what changed meanwhile is noticed then.
func TestReplicasTellEachOtherAfterACut(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b := replica(t, dsn), replica(t, dsn)
	const space = "default/user/coder/ana"
	woken(t, space, func() { put(t, b, space, "first") }, a)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	bothListen := func() {
		t.Helper()
		testkit.Eventually(t, soon, func() error {
			n := 0
			err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&n)
			if err == nil && n != 2 {
				err = fmt.Errorf("%d connections listen", n)
			}
			return err
		})
	}
	bothListen()
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	woken(t, space, func() { put(t, b, space, "second") }, a)
	bothListen()
	woken(t, space, func() { put(t, b, space, "third") }, a)
}
