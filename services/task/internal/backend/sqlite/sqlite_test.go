package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/task/internal/task"
	"github.com/gantry-agents/gantry/services/task/internal/task/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(tb testing.TB, path string, now func() time.Time) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path, Now: now})
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

func fixture(tb testing.TB) storetest.Fixture {
	path := filepath.Join(tb.TempDir(), "a folder", "tasks?#%.db")
	c := &clock{now: time.Date(2026, 10, 1, 10, 0, 0, 1234, time.UTC)}
	s := open(tb, path, c.Now)
	return storetest.Fixture{Store: s, Advance: c.Advance, Reopen: func() task.Store {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
		s = open(tb, path, c.Now)
		return s
	}}
}

func TestStore(t *testing.T) { storetest.Run(testkit.Wrap(t), fixture) }

func TestOpen(t *testing.T) {
	t.Run("a file in use is refused in words", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		open(t, path, nil)
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "another task service") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a file that is no database is left alone", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		text := strings.Repeat("this is a letter, not a database. ", 100)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); err == nil {
			t.Error("opened")
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("the file was changed (%v)", err)
		}
	})
	t.Run("a database of a newer program is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		s := open(t, path, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		setVersion(t, path, 99)
		if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); err == nil || !strings.Contains(err.Error(), "newer") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no path is an error", func(t *testing.T) {
		if _, err := sqlite.Open(t.Context(), sqlite.Config{}); err == nil {
			t.Error("opened")
		}
	})
}

func setVersion(t *testing.T, path string, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = "+strconv.Itoa(version)); err != nil {
		t.Fatal(err)
	}
}
