package postgres_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func open(t testing.TB, dsn string) files.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn}, time.Now)
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

func TestHistory(t *testing.T) {
	storetest.RunHistory(testkit.Wrap(t), func(t testkit.T) storetest.Place {
		dsn := testkit.Postgres(t)
		return func(policy files.History, now func() time.Time) files.Store {
			store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, MaxConns: 8, History: policy}, now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return store
		}
	})
}

func TestStore(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store { return open(t, testkit.Postgres(t)) })
}
