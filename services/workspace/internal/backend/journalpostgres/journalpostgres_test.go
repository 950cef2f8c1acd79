package journalpostgres_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalpostgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal/storetest"
)

func TestMain(m *testing.M) {
	if storetest.CrashChild(openAt) {
		return
	}
	goleak.VerifyTestMain(m)
}

func openAt(ctx context.Context, dsn string) (journal.Store, error) {
	return journalpostgres.Open(ctx, journalpostgres.Config{DSN: dsn})
}

func TestKill(t *testing.T) { storetest.Kill(t, testkit.Postgres(t), openAt) }

// open opens a store in a database and closes it with the test.
func open(tb testing.TB, dsn string, now func() time.Time) *journalpostgres.Store {
	tb.Helper()
	s, err := journalpostgres.Open(tb.Context(), journalpostgres.Config{DSN: dsn, Now: now})
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

func TestStore(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(tb testing.TB, now func() time.Time) journal.Store { return open(tb, testkit.Postgres(tb), now) })
}
