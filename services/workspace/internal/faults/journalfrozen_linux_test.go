package faults

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
)

// TestJournalFrozenPostgres stops the server in the middle of changes of the journal: they end with a typed error when their time is over, and are made once when they are repeated.
func TestJournalFrozenPostgres(t *testing.T) {
	if os.Getenv(testkit.PostgresEnv) != "" {
		t.Skip("the server is not this test's to freeze")
	}
	url := testkit.Postgres(t)
	store := openJournal(t, url)
	for _, ch := range journalChanges {
		if _, err := store.Heartbeat(t.Context(), journalOwner, false); err != nil {
			t.Fatal(err)
		}
		c := beginThread(t, store, ch.name)
		thaw := freeze(t, url)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), frozenFor)
		err := ch.change(ctx, store, c)
		cancel()
		took := time.Since(started)
		thaw()
		if !unknown(err) {
			t.Errorf("%s: %v", ch.name, err)
		}
		if took > frozenFor+2*time.Second {
			t.Errorf("%s: the call ended %s after its deadline", ch.name, took-frozenFor)
		}
		testkit.Eventually(t, 20*time.Second, func() error { return ch.change(t.Context(), store, c) })
		if err := ch.check(t, store, c); err != nil {
			t.Errorf("%s, repeat: %v", ch.name, err)
		}
	}
}
