package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func open(t testkit.T) files.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "dir", "files.db")}, time.Now)
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
		path := filepath.Join(t.TempDir(), "files.db")
		return func(policy files.History, now func() time.Time) files.Store {
			store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, History: policy}, now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return store
		}
	})
}

func TestStore(t *testing.T) { storetest.Run(testkit.Wrap(t), open) }
