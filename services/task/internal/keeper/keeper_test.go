package keeper_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/task/internal/keeper"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// counting counts the transactions of a store.
type counting struct {
	task.Store
	calls atomic.Int64
}

func (c *counting) Update(ctx context.Context, fn func(task.Tx) error) error {
	c.calls.Add(1)
	return c.Store.Update(ctx, fn)
}

func (c *counting) View(ctx context.Context, fn func(task.ReadTx) error) error {
	c.calls.Add(1)
	return c.Store.View(ctx, fn)
}

// TestNoPolling checks that the keeper does not ask the store again and again while nothing is due, and is there in time when something is.
func TestNoPolling(t *testing.T) {
	inner, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "tasks.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	store := &counting{Store: inner}
	limits := task.Limits{LivePerOwner: 100, LivePerTenant: 100, MaxAttempts: 1, Backoff: task.Backoff{Initial: time.Second, Max: time.Second}}
	engine := task.NewEngine(store, limits, func(*task.Task) ([]byte, error) { return nil, nil })
	k := keeper.New(engine, task.Retention{}, time.Hour, slog.New(slog.DiscardHandler))
	defer store.Listen(k.Signal)()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); k.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	ana := identity.Identity{Tenant: "default", Agent: "coder", User: "ana"}
	create := func(timeout time.Duration) task.Task {
		made, err := engine.Create(t.Context(), task.New{Identity: ana, Bucket: "b", Kind: "job", Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		return made.Task
	}
	for range 20 {
		create(time.Hour)
	}
	short := create(400 * time.Millisecond)
	owner, err := task.OwnerKey(ana)
	if err != nil {
		t.Fatal(err)
	}
	before := store.calls.Load()
	var looks int64
	testkit.Eventually(t, 10*time.Second, func() error {
		looks++
		seen, err := engine.Get(t.Context(), task.Viewer{Tenant: "default", Owner: owner}, short.ID)
		if err == nil && seen.Task.State != task.Failed {
			err = errors.New("the deadline has not ended it")
		}
		return err
	})
	if own := store.calls.Load() - before - looks; own > 12 {
		t.Errorf("the keeper used %d transactions for one deadline", own)
	}
}
