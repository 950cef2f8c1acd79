package searchtest_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/searchtest"
)

func TestEqualLocal(t *testing.T) {
	searchtest.RunEqual(testkit.Wrap(t), func(t testkit.T) files.Store {
		store, err := local.Open(t.Context(), local.Config{Dir: t.TempDir()}, time.Now)
		return closing(t, store, err)
	})
}

func TestEqualSQLite(t *testing.T) {
	searchtest.RunEqual(testkit.Wrap(t), func(t testkit.T) files.Store {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "files.db")}, time.Now)
		return closing(t, store, err)
	})
}

func TestEqualPostgres(t *testing.T) {
	searchtest.RunEqual(testkit.Wrap(t), func(t testkit.T) files.Store {
		store, err := postgres.Open(t.Context(), postgres.Config{DSN: testkit.Postgres(t)}, time.Now)
		return closing(t, store, err)
	})
}

func TestEqualObject(t *testing.T) {
	searchtest.RunEqual(testkit.Wrap(t), func(t testkit.T) files.Store {
		store, err := object.Open(t.Context(), object.Config{URL: "mem://"}, time.Now)
		return closing(t, store, err)
	})
}

func TestEqualRedis(t *testing.T) {
	searchtest.RunEqual(testkit.Wrap(t), func(t testkit.T) files.Store {
		store, err := redis.Open(t.Context(), redis.Config{URL: testkit.Redis(t)}, time.Now)
		return closing(t, store, err)
	})
}
