package pgnotify_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/pgnotify"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// process is one that talks.
type process struct {
	*pgnotify.Channel
	pool *pgxpool.Pool

	mu     sync.Mutex
	heard  map[string]int
	missed int
}

func join(t *testing.T, dsn, channel string) *process {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{pool: pool, heard: map[string]int{}}
	p.Channel = pgnotify.Open(pool, channel, func(words []string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range words {
			p.heard[w]++
		}
	}, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.missed++
	}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		p.Close()
		pool.Close()
	})
	return p
}

// named has the connections of a process known by its name.
func named(t *testing.T, dsn, name string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	return u.String()
}

// listens waits until the process has begun to listen that many times.
func (p *process) listens(t *testing.T, times int) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.missed < times {
			return fmt.Errorf("it has begun to listen %d times, want %d", p.missed, times)
		}
		return nil
	})
}

// hears waits until the process has heard words.
func (p *process) hears(t *testing.T, words ...string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range words {
			if p.heard[w] == 0 {
				return fmt.Errorf("%.40q was not heard", w)
			}
		}
		return nil
	})
}

func TestTell(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b, other := join(t, dsn, "one"), join(t, dsn, "one"), join(t, dsn, "two")
	for _, p := range []*process{a, b, other} {
		p.listens(t, 1)
	}
	// Far more than one notification holds, one word as long as any may be, and text that SQL would take for its own.
	words := []string{strings.Repeat("w", 7000), `';--`, `"%_*\`, "é"}
	for i := range 2000 {
		words = append(words, fmt.Sprint("word-", i))
	}
	a.Tell(words...)
	b.hears(t, words...)
	b.Tell("last")
	a.hears(t, "last")
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.heard) != 1 {
		t.Errorf("a process heard %d words, want the one of the other process", len(a.heard))
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	if len(other.heard) != 0 {
		t.Errorf("another channel heard %d words", len(other.heard))
	}
}

// Whatever connection is cut, those who listen do so again and say that they missed something, and what could not be told is told after all.
func TestTellAfterACut(t *testing.T) {
	dsn := testkit.Postgres(t)
	a, b := join(t, named(t, dsn, "a"), "one"), join(t, named(t, dsn, "b"), "one")
	a.listens(t, 1)
	b.listens(t, 1)
	cut := func(name string) {
		t.Helper()
		if _, err := b.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()`, name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		word := fmt.Sprint("before-", i)
		a.Tell(word) // leaves a connection in the pool, to be cut
		b.hears(t, word)
		cut("a")
		word = fmt.Sprint("after-", i)
		a.Tell(word)
		b.hears(t, word)
	}
	a.listens(t, 2)
	cut("b")
	b.listens(t, 2)
	a.Tell("again")
	b.hears(t, "again")
}

// A server that does not answer keeps nobody from telling or leaving.
func TestCloseWithoutAServer(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c := pgnotify.Open(pool, "one", func([]string) {}, func() {}, slog.New(slog.DiscardHandler))
	begun := time.Now()
	c.Tell("a")
	c.Close()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("leaving took %s", took)
	}
}
