package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// kills is how often each mutation is killed on each backend.
const kills = 3

// killed are the backends, each with a place that a second process can open after the first has died. A new one adds its line.
var killed = map[string]struct {
	place func(t *testing.T) string
	open  func(ctx context.Context, place string) (files.Store, error)
}{
	"local": {func(t *testing.T) string { return t.TempDir() }, func(ctx context.Context, dir string) (files.Store, error) {
		return local.Open(ctx, local.Config{Dir: dir, History: files.DefaultHistory()}, time.Now)
	}},
	"sqlite": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "files.db") }, func(ctx context.Context, path string) (files.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: path, History: files.DefaultHistory()}, time.Now)
	}},
	"postgres": {func(t *testing.T) string { return testkit.Postgres(t) }, func(ctx context.Context, dsn string) (files.Store, error) {
		return postgres.Open(ctx, postgres.Config{DSN: dsn, History: files.DefaultHistory()}, time.Now)
	}},
	"redis": {func(t *testing.T) string { return testkit.Redis(t) }, func(ctx context.Context, url string) (files.Store, error) {
		return redis.Open(ctx, redis.Config{URL: url, Config: manifest.Config{History: files.DefaultHistory()}}, time.Now)
	}},
	"object in a directory": {func(t *testing.T) string { return "file://" + t.TempDir() }, func(ctx context.Context, url string) (files.Store, error) {
		return object.Open(ctx, object.Config{URL: url, Config: manifest.Config{History: files.DefaultHistory()}}, time.Now)
	}},
	"object in S3": {func(t *testing.T) string { return testkit.S3(t) }, func(ctx context.Context, url string) (files.Store, error) {
		return object.Open(ctx, object.Config{URL: url, Config: manifest.Config{History: files.DefaultHistory()}}, time.Now)
	}},
}

// childEnv holds what a process that is to be killed does, as JSON.
const childEnv = "GANTRY_FAULTS_CHILD"

type childTask struct {
	Backend, Place string
	Mutation       int
	Effect         string
}

// child opens the store, says so, makes the change, says so, and waits for its end.
func child(text string) error {
	var task childTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	ctx := context.Background()
	store, err := killed[task.Backend].open(ctx, task.Place)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	m := mutations[task.Mutation]
	if err := m.change(ctx, store, m.callOf(task.Effect)); err != nil {
		return err
	}
	fmt.Println("done")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestKillInTheMiddle kills a process in the middle of each mutation, on each backend: the change is whole or absent, what was acknowledged is there, and the repeat under the
// same effect id by another process makes it happen once.
func TestKillInTheMiddle(t *testing.T) {
	for name, backend := range killed {
		t.Run(name, func(t *testing.T) {
			place := backend.place(t)
			applied, acknowledged := 0, 0
			for i, m := range mutations {
				took := 50 * time.Millisecond
				for n := range kills {
					open(t, name, place, func(store files.Store) { m.begin(t, store) })
					task := childTask{Backend: name, Place: place, Mutation: i, Effect: m.effect(n).Effect.ID}
					// The first is killed after it is done, which tells how long it takes; the others before.
					acked, lasted := runAndKill(t, task, n > 0, time.Duration(rand.Int64N(int64(took)+1)))
					if n == 0 {
						took = lasted
					}
					open(t, name, place, func(store files.Store) {
						done := m.outcome(t, store)
						if acked && !done {
							t.Fatalf("%s was acknowledged and is not there", m.name)
						}
						if done {
							applied++
						}
						if acked {
							acknowledged++
						}
						for range 2 {
							if err := m.change(t.Context(), store, m.callOf(task.Effect)); err != nil {
								t.Fatalf("%s, repeat: %v", m.name, err)
							}
							if !m.outcome(t, store) {
								t.Fatalf("%s: the repeat is acknowledged and not there", m.name)
							}
						}
					})
				}
			}
			t.Logf("%d kills, %d changes were there, %d acknowledged", kills*len(mutations), applied, acknowledged)
		})
	}
}

// open lends an open store: backends of one process must be closed before the child opens them.
func open(t *testing.T, name, place string, f func(files.Store)) {
	t.Helper()
	store, err := killed[name].open(t.Context(), place)
	if err != nil {
		t.Fatalf("open after a kill: %v", err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	f(store)
}

// runAndKill starts a process for a task and kills it: at once after it is done, or early, after a delay since it began. It says whether the change was acknowledged and after what time.
func runAndKill(t *testing.T, task childTask, early bool, delay time.Duration) (acked bool, took time.Duration) {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+string(text)), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the process did not begin: %v", cmd.Wait())
	}
	began := time.Now()
	if early {
		timer := time.AfterFunc(delay, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	for lines.Scan() {
		if lines.Text() == "done" {
			acked, took = true, time.Since(began)
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if !early && !acked {
		t.Fatalf("%s failed", mutations[task.Mutation].name)
	}
	return acked, took
}
