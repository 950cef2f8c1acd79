package journalsqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal/storetest"
)

func openAt(ctx context.Context, path string) (journal.Store, error) {
	return journalsqlite.Open(ctx, journalsqlite.Config{Path: path})
}

func TestKill(t *testing.T) { storetest.Kill(t, filepath.Join(t.TempDir(), "journal.db"), openAt) }

// TestTornTail cuts the end of the write-ahead log, as a machine that stops while it writes may: the store opens with whole batches up to there.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.db")
	storetest.KillOnce(t, path, 300, make([]int64, storetest.CrashWriters))
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 100, 4096, 5000, len(wal) / 3} {
		copied := filepath.Join(dir, fmt.Sprint("cut", cut), "journal.db")
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			t.Fatal(err)
		}
		torn := append(append([]byte(nil), wal[:len(wal)-cut]...), []byte("rest of a frame")...)
		for name, data := range map[string][]byte{copied: db, copied + "-wal": torn} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		checkTorn(t, copied)
	}
}

// checkTorn checks that every thread that is there is whole.
func checkTorn(t *testing.T, path string) {
	t.Helper()
	store, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	heads, _, err := store.List(t.Context(), journal.UserOf(storetest.CrashThread(0)), 100, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		n := int64(0)
		if _, _, err := journal.Scan(t.Context(), store, h.Thread, 0, 0, nil, func(journal.Event) error { n++; return nil }); err != nil {
			t.Fatalf("%s: %v", h.Thread, err)
		}
		if n%storetest.CrashEvents != 0 || n != h.Seq {
			t.Errorf("%s has %d events, head %d", h.Thread, n, h.Seq)
		}
	}
}
