package local_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func TestHistory(t *testing.T) {
	storetest.RunHistory(testkit.Wrap(t), func(t testkit.T) storetest.Place {
		dir := t.TempDir()
		return func(policy files.History, now func() time.Time) files.Store {
			store, err := local.Open(t.Context(), local.Config{Dir: dir, History: policy}, now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			return store
		}
	})
}

func open(t testkit.T) files.Store { return openIn(t, t.TempDir()) }

func openIn(t testing.TB, dir string) *local.Store {
	t.Helper()
	store, err := local.Open(t.Context(), local.Config{Dir: dir}, time.Now)
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

func TestStore(t *testing.T) { storetest.Run(testkit.Wrap(t), open) }
