package searchtest_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/searchtest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func closing(t testkit.T, store files.Store, err error) files.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestReplicasPostgres(t *testing.T) {
	searchtest.RunReplicas(testkit.Wrap(t), 2, func(t testkit.T) searchtest.Open {
		dsn := testkit.Postgres(t)
		return func() files.Store {
			store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, MaxConns: 4}, time.Now)
			return closing(t, store, err)
		}
	})
}

// SQLite has one owner at a time.
func TestReplicasSQLite(t *testing.T) {
	searchtest.RunReplicas(testkit.Wrap(t), 1, func(t testkit.T) searchtest.Open {
		path := filepath.Join(t.TempDir(), "files.db")
		return func() files.Store {
			store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}, time.Now)
			return closing(t, store, err)
		}
	})
}

func TestReplicasLocal(t *testing.T) {
	searchtest.RunReplicas(testkit.Wrap(t), 1, func(t testkit.T) searchtest.Open {
		dir := t.TempDir()
		return func() files.Store {
			store, err := local.Open(t.Context(), local.Config{Dir: dir}, time.Now)
			return closing(t, store, err)
		}
	})
}
