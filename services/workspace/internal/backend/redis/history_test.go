package redis_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestHistory(t *testing.T) {
	storetest.RunHistory(testkit.Wrap(t), func(t testkit.T) storetest.Place {
		at := testkit.Redis(t)
		return func(policy files.History, now func() time.Time) files.Store {
			cfg := redis.Config{URL: at}
			cfg.History = policy
			store, err := redis.Open(t.Context(), cfg, now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return store
		}
	})
}
