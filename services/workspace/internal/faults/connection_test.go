package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// servers are the backends that live across a connection. A new one adds its line.
var servers = []struct {
	name string
	// start returns the URL of a server with an empty store.
	start func(t *testing.T) string
	open  func(ctx context.Context, url string) (files.Store, error)
}{
	{"postgres", func(t *testing.T) string { return testkit.Postgres(t) }, func(ctx context.Context, url string) (files.Store, error) {
		return postgres.Open(ctx, postgres.Config{DSN: url, History: files.DefaultHistory()}, time.Now)
	}},
	{"redis", func(t *testing.T) string { return testkit.Redis(t) }, func(ctx context.Context, url string) (files.Store, error) {
		return redis.Open(ctx, redis.Config{URL: url, Config: manifest.Config{History: files.DefaultHistory()}}, time.Now)
	}},
}

// TestCutConnections cuts all connections at each piece that a change sends or gets: the error is UNAVAILABLE or there is none, the change is whole or absent, and its
// repeat under the same effect id makes it happen once.
func TestCutConnections(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			p, url := startProxy(t, s.start(t))
			store := opened(s.open(t.Context(), url))(t)
			cuts, applied := 0, 0
			for _, m := range mutations {
				for n := 0; ; n = further(n) {
					p.cutAfter(-1)
					m.begin(t, store)
					call := m.effect(n)
					p.cutAfter(n)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					err := m.change(ctx, store, call)
					cancel()
					left := p.cutAfter(-1)
					if err != nil && !errors.Is(err, errdefs.ErrUnavailable) {
						t.Errorf("%s, cut at piece %d: %v", m.name, n, err)
					}
					answers(t, store)
					done := m.outcome(t, store)
					if err == nil && !done {
						t.Fatalf("%s, cut at piece %d: acknowledged and not there", m.name, n)
					}
					if done {
						applied++
					}
					if err := m.change(t.Context(), store, call); err != nil {
						t.Fatalf("%s, cut at piece %d, repeat: %v", m.name, n, err)
					}
					if !m.outcome(t, store) {
						t.Fatalf("%s, cut at piece %d: the repeat is acknowledged and not there", m.name, n)
					}
					if cuts++; left >= 0 {
						break // all of it was passed on
					}
				}
			}
			t.Logf("%d cuts, %d changes were done all the same", cuts, applied)
		})
	}
}

// further goes through the first pieces one by one and then faster.
func further(n int) int {
	if n < 8 {
		return n + 1
	}
	return n + n/2
}

// answers waits until the store answers again: connections of the pool that are dead are noticed at their next use.
func answers(t *testing.T, store files.Store) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err := store.Usage(t.Context(), ana)
		return err
	})
}
