package redis_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest/manifesttest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func open(t testing.TB, cfg redis.Config) *manifest.Store {
	t.Helper()
	cfg.History = files.DefaultHistory()
	store, err := redis.Open(t.Context(), cfg, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func TestStore(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store { return open(t, redis.Config{URL: testkit.Redis(t)}) })
}

func TestReplicas(t *testing.T) {
	manifesttest.Run(testkit.Wrap(t), func(t testkit.T) manifesttest.Replica {
		url := testkit.Redis(t)
		return func(t testkit.T) files.Store { return open(t, redis.Config{URL: url}) }
	})
}

func BenchmarkStore(b *testing.B) {
	url := testkit.Redis(b)
	manifesttest.Bench(b, func(tb testing.TB) files.Store { return open(tb, redis.Config{URL: url}) })
}
