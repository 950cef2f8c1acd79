package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func TestMain(m *testing.M) {
	if task, ok := os.LookupEnv(childEnv); ok {
		if err := child(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The client of S3 keeps idle connections.
	testkit.LeakMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// backends are all that are tested here. A new one adds its line.
var backends = []struct {
	name string
	open func(t *testing.T) files.Store
}{
	{"local", func(t *testing.T) files.Store {
		return opened(local.Open(t.Context(), local.Config{Dir: t.TempDir(), History: files.DefaultHistory()}, time.Now))(t)
	}},
	{"sqlite", func(t *testing.T) files.Store {
		return opened(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "files.db"), History: files.DefaultHistory()}, time.Now))(t)
	}},
	{"postgres", func(t *testing.T) files.Store {
		return opened(postgres.Open(t.Context(), postgres.Config{DSN: testkit.Postgres(t), History: files.DefaultHistory()}, time.Now))(t)
	}},
	{"redis", func(t *testing.T) files.Store {
		return opened(redis.Open(t.Context(), redis.Config{URL: testkit.Redis(t), Config: manifest.Config{History: files.DefaultHistory()}}, time.Now))(t)
	}},
	{"object in memory", func(t *testing.T) files.Store {
		return opened(object.Open(t.Context(), object.Config{URL: "mem://", Config: manifest.Config{History: files.DefaultHistory()}}, time.Now))(t)
	}},
	{"object in S3", func(t *testing.T) files.Store {
		return opened(object.Open(t.Context(), object.Config{URL: testkit.S3(t), Config: manifest.Config{History: files.DefaultHistory()}}, time.Now))(t)
	}},
}

// opened closes a store with the test.
func opened[S files.Store](s S, err error) func(t *testing.T) files.Store {
	return func(t *testing.T) files.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return s
	}
}

// each runs a test on a fresh store of each backend.
func each(t *testing.T, f func(t *testing.T, store files.Store)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) { f(t, b.open(t)) })
	}
}

const (
	ana = files.Space("default/user/coder/ana")
	ben = files.Space("default/user/coder/ben")
)

func viewOf(store files.Store, space files.Space) *files.View {
	return files.NewView(store, space, nil, files.Limits{}, time.Now)
}

var call = files.Call{Author: "tester"}

func write(ctx context.Context, store files.Store, space files.Space, path string, content []byte) error {
	staged, err := store.Stage(ctx, bytes.NewReader(content), 0)
	if err != nil {
		return err
	}
	defer staged.Discard()
	_, err = viewOf(store, space).Write(ctx, call, files.Write{Path: fsops.PathOf(path)}, staged)
	return err
}

func mustWrite(t *testing.T, store files.Store, space files.Space, path string, content []byte) {
	t.Helper()
	if err := write(t.Context(), store, space, path, content); err != nil {
		t.Fatalf("write %q: %v", path, err)
	}
}

// mustHold checks the whole content of a file.
func mustHold(t *testing.T, store files.Store, space files.Space, path string, want []byte) {
	t.Helper()
	_, got, err := viewOf(store, space).ReadAll(t.Context(), fsops.PathOf(path), 1<<30)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s %q holds %d bytes %.60q, want %d bytes %.60q: %v", space, path, len(got), got, len(want), want, err)
	}
}

// mustBeTyped checks that an error has a class, and says nothing about the inside of the service to callers.
func mustBeTyped(t *testing.T, err error) {
	t.Helper()
	typed, ok := errors.AsType[*errdefs.Error](err)
	if !ok || typed.Class == errdefs.ErrInternal {
		t.Errorf("the error has no class of its own: %v", err)
	}
}
