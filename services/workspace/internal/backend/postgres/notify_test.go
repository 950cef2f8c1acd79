package postgres_test

import (
	"context"
	"fmt"
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

// soon is well below the interval at which a store looks although the others tell.
const soon = 3 * time.Second

func replica(t *testing.T, dsn string) *sqlstore.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn}, time.Now)
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

// woken waits until a replica is woken for a space, and fails when that takes as long as looking would.
func woken(t *testing.T, s files.Store, space files.Space, change func()) {
	t.Helper()
	head, err := s.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, space, head) }()
	change()
	if err := <-done; err != nil {
		t.Errorf("nobody told of a change of %q: %v", space, err)
	}
}

func TestReplicasTellEachOther(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b := replica(t, dsn), replica(t, dsn)
	for _, space := range []files.Space{"default/user/coder/ana", "default/user/coder/a na", "default/user/coder/a%2Fb", "default/user/coder/" + files.Space(strings.Repeat("é", 100))} {
		put(t, b, space, "first")
		woken(t, a, space, func() { put(t, b, space, "second") })
		woken(t, b, space, func() {
			if _, err := a.Forget(t.Context(), space); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A connection that is cut is made again, and what changed meanwhile is noticed then.
func TestReplicasTellEachOtherAfterACut(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b := replica(t, dsn), replica(t, dsn)
	const space = "default/user/coder/ana"
	woken(t, a, space, func() { put(t, b, space, "first") })
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	listeners := func() (n int) {
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := listeners(); n != 2 {
		t.Fatalf("%d connections listen, want one for each replica", n)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`); err != nil {
		t.Fatal(err)
	}
	woken(t, a, space, func() { put(t, b, space, "second") })
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := listeners(); n != 2 {
			return fmt.Errorf("%d connections listen", n)
		}
		return nil
	})
	woken(t, a, space, func() { put(t, b, space, "third") })
}
