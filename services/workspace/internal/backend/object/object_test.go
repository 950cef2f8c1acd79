package object_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest/manifesttest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) {
	// The client of S3 keeps connections for the next request; nothing closes them before their time.
	testkit.LeakMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func open(t testing.TB, cfg object.Config) *manifest.Store {
	t.Helper()
	cfg.History = files.DefaultHistory()
	store, err := object.Open(t.Context(), cfg, time.Now)
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
	for name, url := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "mem://" },
		"s3":     func(t testing.TB) string { return testkit.S3(t) },
		"file":   func(t testing.TB) string { return "file://" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store { return open(t, object.Config{URL: url(t)}) })
		})
	}
}

func TestReplicas(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{
		"s3":   func(t testing.TB) string { return testkit.S3(t) },
		"file": func(t testing.TB) string { return "file://" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			manifesttest.Run(testkit.Wrap(t), func(t testkit.T) manifesttest.Replica {
				at := url(t)
				return func(t testkit.T) files.Store { return open(t, object.Config{URL: at}) }
			})
		})
	}
}

func BenchmarkStore(b *testing.B) {
	url := testkit.S3(b)
	manifesttest.Bench(b, func(tb testing.TB) files.Store { return open(tb, object.Config{URL: url}) })
}
