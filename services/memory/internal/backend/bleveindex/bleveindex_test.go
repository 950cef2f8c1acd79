package bleveindex_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory/internal/backend/bleveindex"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/indextest"
)

func TestMain(m *testing.M) {
	// Bleve starts its analysis workers once for the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func TestOnDisk(t *testing.T) {
	indextest.Run(testkit.Wrap(t), indextest.Traits{Durable: true}, func(tb testing.TB) index.Backend {
		return bleveindex.OnDisk(filepath.Join(tb.TempDir(), "with [odd] name"))
	})
}

func TestInMemory(t *testing.T) {
	indextest.Run(testkit.Wrap(t), indextest.Traits{}, func(testing.TB) index.Backend { return bleveindex.InMemory() })
}

func TestLockedByAnother(t *testing.T) {
	root := t.TempDir()
	indextest.Fill(t, bleveindex.OnDisk(root), "k", "text")
	if _, err := bleveindex.OnDisk(root).Open(t.Context(), "k"); !errors.Is(err, index.ErrLocked) {
		t.Errorf("opened twice: %v, want ErrLocked", err)
	}
}

// TestDamageIsSeen damages a closed index in every way a disk or a person might, and expects that nothing wrong is ever served.
func TestDamageIsSeen(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, dir string){
		"segment bit":   func(t *testing.T, dir string) { flip(t, segment(t, dir), 100) },
		"segment short": func(t *testing.T, dir string) { cut(t, segment(t, dir), 60) },
		"segment empty": func(t *testing.T, dir string) { cut(t, segment(t, dir), 0) },
		"segment gone":  func(t *testing.T, dir string) { remove(t, segment(t, dir)) },
		"meta gone":     func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "index_meta.json")) },
		"meta garbage":  func(t *testing.T, dir string) { cut(t, filepath.Join(dir, "index_meta.json"), 5) },
		"bolt zeroed":   func(t *testing.T, dir string) { zero(t, filepath.Join(dir, "store", "root.bolt")) },
		"bolt short":    func(t *testing.T, dir string) { cut(t, filepath.Join(dir, "store", "root.bolt"), 5000) },
		"directory emptied": func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "store"))
			remove(t, filepath.Join(dir, "index_meta.json"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			b := bleveindex.OnDisk(root)
			ix := indextest.Fill(t, b, "k", "some text", "more text")
			if err := ix.Close(); err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(root, "v1", "k.bleve"))
			ix, err := b.Open(t.Context(), "k")
			switch {
			case errors.Is(err, index.ErrDamaged):
			case err != nil:
				t.Errorf("open: %v, want ErrDamaged", err)
			default:
				consistent(t, ix)
				ix.Close()
			}
			if err := b.Destroy(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			indextest.Fill(t, b, "k", "some text")
		})
	}
}

// consistent checks an index that opened in spite of the damage: Bleve may go back to an earlier snapshot. That is as good as damage that is reported, if
// documents and revisions are of the same snapshot, for then the sources are read again.
func consistent(t *testing.T, ix index.Index) {
	t.Helper()
	revisions, err := ix.Revisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stats, err := ix.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, known := revisions["a.md"]; known != (stats.Docs == 2) {
		t.Errorf("the damaged index opened with %d documents and revisions %v", stats.Docs, revisions)
	}
}

func segment(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "store", "*.zap"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no segment in %s: %v", dir, err)
	}
	return found[0]
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x10
	write(t, path, data)
}

func cut(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func zero(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, make([]byte, info.Size()))
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
