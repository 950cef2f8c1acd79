package journalsqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal/storetest"
)

func TestMain(m *testing.M) {
	if storetest.CrashChild(openAt) {
		return
	}
	goleak.VerifyTestMain(m)
}

// open opens a store in a file and closes it with the test.
func open(tb testing.TB, path string, now func() time.Time) *journalsqlite.Store {
	tb.Helper()
	s, err := journalsqlite.Open(tb.Context(), journalsqlite.Config{Path: path, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func factory(tb testing.TB, now func() time.Time) journal.Store {
	return open(tb, filepath.Join(tb.TempDir(), "journal.db"), now)
}

func TestStore(t *testing.T) { storetest.Run(testkit.Wrap(t), factory) }
