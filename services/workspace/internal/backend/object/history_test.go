package object_test

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestHistory(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{
		"s3":   func(t testing.TB) string { return testkit.S3(t) },
		"file": func(t testing.TB) string { return "file://" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunHistory(testkit.Wrap(t), func(t testkit.T) storetest.Place {
				at := url(t)
				return func(policy files.History, now func() time.Time) files.Store {
					cfg := object.Config{URL: at}
					cfg.History = policy
					store, err := object.Open(t.Context(), cfg, now)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { store.Close() })
					return store
				}
			})
		})
	}
}
