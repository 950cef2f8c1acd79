package manifest_test

import (
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest/manifesttest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func open(t testing.TB, m *memory, cfg manifest.Config) *manifest.Store {
	t.Helper()
	if cfg.History == (files.History{}) {
		cfg.History = files.DefaultHistory()
	}
	store := manifest.New(m, cfg, m.now)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func TestStore(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store { return open(t, newMemory(), manifest.Config{}) })
}

func TestReplicas(t *testing.T) {
	manifesttest.Run(testkit.Wrap(t), func(testkit.T) manifesttest.Replica {
		m := newMemory()
		return func(t testkit.T) files.Store { return open(t, m, manifest.Config{}) }
	})
}
