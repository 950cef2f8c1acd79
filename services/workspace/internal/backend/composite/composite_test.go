package composite_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

func TestMain(m *testing.M) {
	// The client of S3 keeps connections for the next request; nothing closes them before their time.
	testkit.LeakMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

var history = files.DefaultHistory()

func openSQLite(t testing.TB) files.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "files.db"), History: history}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openLocal(t testing.TB) files.Store {
	t.Helper()
	s, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), History: history}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openPostgres(t testing.TB) files.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: testkit.Postgres(t), History: history}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open puts a store together, which closes with the test.
func open(t testing.TB, cfg composite.Config) *composite.Store {
	t.Helper()
	cfg.SpoolDir = t.TempDir()
	s := openIn(t, cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func openIn(t testing.TB, cfg composite.Config) *composite.Store {
	t.Helper()
	s, err := composite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func named(name string, s files.Store) composite.Named { return composite.Named{Name: name, Store: s} }

// routes are pairs of a prefix and the name of a store.
func routes(pairs ...string) []composite.Route {
	var out []composite.Route
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, composite.Route{Prefix: pairs[i], To: pairs[i+1]})
	}
	return out
}

// middle are routes in the middle of what the suite writes: directories, single files, one within another, and back to the default.
func middle(a, b string) []composite.Route {
	return routes("b/a", a, "c/a/b", a, "d/e", a, "d/e/b", b, "knowledge", a, "knowledge/b.md", b, "skills/s", a, "sub/y", a, "p/e", a, "log", a, "n", a, "n/d", b,
		"big", a, "new/place/e", a, "secret.txt", a, "보고서", a, "vendor", a, "f", a, "a/b", a, "a/b/c", b, "file-then-dir/x", a, "dir-then-file", a)
}

func TestStoreOverSQLite(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store {
		return open(t, composite.Config{
			Default: named("sqlite", openSQLite(t)), Others: []composite.Named{named("other", openSQLite(t))}, Routes: middle("other", "sqlite"),
		})
	})
}

func TestStoreOverThree(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store {
		return open(t, composite.Config{
			Default: named("local", openLocal(t)), Others: []composite.Named{named("sqlite", openSQLite(t)), named("more", openSQLite(t))}, Routes: middle("sqlite", "more"),
		})
	})
}

func TestStoreOverPostgres(t *testing.T) {
	storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store {
		return open(t, composite.Config{
			Default: named("postgres", openPostgres(t)), Others: []composite.Named{named("more", openPostgres(t))}, Routes: middle("more", "postgres"),
		})
	})
}

// An object store as default lets several updates of a space run at the same time and asks those that lose for another run.
func TestStoreOverObjects(t *testing.T) {
	for name, swap := range map[string]bool{"by default": false, "by route": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store {
				objects, err := object.Open(t.Context(), object.Config{URL: "mem://", Config: manifest.Config{History: history}}, time.Now)
				if err != nil {
					t.Fatal(err)
				}
				first, other := named("object", objects), named("postgres", openPostgres(t))
				if swap {
					first, other = other, first
				}
				return open(t, composite.Config{Default: first, Others: []composite.Named{other}, Routes: middle(other.Name, first.Name)})
			})
		})
	}
}
