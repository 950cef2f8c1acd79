package composite_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/object"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// opener opens the same store each time, as another process does.
type opener func() (files.Store, error)

func onPostgres(t *testing.T) opener {
	dsn := testkit.Postgres(t)
	return func() (files.Store, error) {
		return postgres.Open(t.Context(), postgres.Config{DSN: dsn, MaxConns: 4, History: history}, time.Now)
	}
}

func onS3(t *testing.T) opener {
	url := testkit.S3(t)
	return func() (files.Store, error) {
		return object.Open(t.Context(), object.Config{URL: url, Config: manifest.Config{History: history}}, time.Now)
	}
}

// replicas are three processes over the same two shared stores.
func replicas(t *testing.T, first, second opener, pairs ...string) []*composite.Store {
	t.Helper()
	var out []*composite.Store
	for range 3 {
		var stores []files.Store
		for _, o := range []opener{first, second} {
			s, err := o()
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
		}
		out = append(out, open(t, composite.Config{Default: named("first", stores[0]), Others: []composite.Named{named("second", stores[1])}, Routes: routes(pairs...)}))
	}
	return out
}

// Each of three replicas sees at once what the others wrote, moved and deleted, in either store, and a watcher of one sees all.
func TestReplicasSeeEachOther(t *testing.T) {
	all := replicas(t, onPostgres(t), onPostgres(t), "r", "second")
	space := user("ana")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting, seen := make(chan struct{}, 100), make(chan string, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = plain(all[2], space).Follow(ctx, files.Cursor{}, time.Minute, func(files.Cursor) error { waiting <- struct{}{}; return nil }, func(c files.Change) error {
			seen <- c.Path.String()
			return nil
		})
	}()
	<-waiting
	for i, p := range []string{"a", "r/a", "b", "r/b"} {
		writer := plain(all[i%3], space)
		if _, err := writer.Append(ctx, files.Call{}, path(p), []byte(p), false); err != nil {
			t.Fatal(err)
		}
		for n, s := range all {
			if _, data, err := plain(s, space).ReadAll(ctx, path(p), 100); err != nil || string(data) != p {
				t.Errorf("replica %d reads %q, %v", n, data, err)
			}
		}
		select {
		case got := <-seen:
			if got != p {
				t.Errorf("the watcher saw %s, want %s", got, p)
			}
		case <-ctx.Done():
			t.Fatalf("the watcher did not see %s", p)
		}
	}
	if _, err := plain(all[1], space).Move(ctx, files.Call{}, files.Move{From: path("a"), To: path("r/c")}); err != nil {
		t.Fatal(err)
	}
	if _, err := plain(all[2], space).Delete(ctx, files.Call{}, files.Delete{Path: path("r/a")}); err != nil {
		t.Fatal(err)
	}
	for n, s := range all {
		page, err := plain(s, space).List(ctx, fsops.Path{}, true, 100, "")
		var got []string
		for _, e := range page.Entries {
			got = append(got, e.Path.String())
		}
		if err != nil || fmt.Sprint(got) != "[b r r/b r/c]" {
			t.Errorf("replica %d lists %q, %v", n, got, err)
		}
	}
	cancel()
	<-ended
}

// Writers at three replicas lose nothing and double nothing, with repeats under one effect at each, and never put a file above another one.
func TestReplicasTogether(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		together(t, replicas(t, onPostgres(t), onPostgres(t), "r", "second", "a/b", "second"))
	})
	t.Run("s3 by default", func(t *testing.T) { together(t, replicas(t, onS3(t), onPostgres(t), "r", "second")) })
	t.Run("s3 by route", func(t *testing.T) { together(t, replicas(t, onPostgres(t), onS3(t), "r", "second", "a/b", "second")) })
}

func together(t *testing.T, all []*composite.Store) {
	space := user("ana")
	const rounds = 12
	var group sync.WaitGroup
	for n, s := range all {
		v := plain(s, space)
		group.Go(func() {
			for i := range rounds {
				for _, p := range []string{"log", "r/log"} {
					if _, err := v.Append(t.Context(), files.Call{}, path(p), fmt.Appendf(nil, "%d-%d.\n", n, i), false); err != nil {
						t.Errorf("append: %v", err)
					}
				}
				once := files.Call{Effect: files.Effect{ID: fmt.Sprint("once-", i), Hash: "h"}}
				if _, err := v.Append(t.Context(), once, path("r/once"), fmt.Appendf(nil, "%d.\n", i), false); err != nil {
					t.Errorf("append once: %v", err)
				}
				move := files.Call{Effect: files.Effect{ID: fmt.Sprint("move-", n, "-", i), Hash: "h"}}
				from, to := fmt.Sprintf("in/%d-%d", n, i), fmt.Sprintf("r/out/%d-%d", n, i)
				if _, err := v.Append(t.Context(), files.Call{}, path(from), []byte(from), false); err != nil {
					t.Errorf("append: %v", err)
				}
				if _, err := v.Move(t.Context(), move, files.Move{From: path(from), To: path(to)}); err != nil {
					t.Errorf("move: %v", err)
				}
				// One of the two, never both: a file where a directory must be.
				p := []string{"a", "a/b/c"}[(n+i)%2]
				_, err := v.Append(t.Context(), files.Call{}, path(p), []byte("x"), false)
				if reason := errdefs.ReasonOf(err); err != nil && reason != fsops.ReasonIsDirectory && reason != fsops.ReasonNotADirectory {
					t.Errorf("append to %s: %v", p, err)
				}
				if _, err := v.Delete(t.Context(), files.Call{}, files.Delete{Path: path("a"), Recursive: true, AllowMissing: true}); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	group.Wait()
	got := map[string]string{}
	v := plain(all[0], space)
	page, err := v.List(t.Context(), fsops.Path{}, true, 1000, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Kind == files.KindFile {
			_, data, err := v.ReadAll(t.Context(), e.Path, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(data), "\n")
			slices.Sort(lines)
			got[e.Path.String()] = strings.Join(lines, "")
		}
	}
	want := map[string]string{}
	var log, once []string
	for n := range all {
		for i := range rounds {
			log = append(log, fmt.Sprintf("%d-%d.\n", n, i))
			want[fmt.Sprintf("r/out/%d-%d", n, i)] = fmt.Sprintf("in/%d-%d", n, i)
		}
	}
	for i := range rounds {
		once = append(once, fmt.Sprintf("%d.\n", i))
	}
	slices.Sort(log)
	slices.Sort(once)
	want["log"], want["r/log"], want["r/once"] = strings.Join(log, ""), strings.Join(log, ""), strings.Join(once, "")
	if _, file := got["a"]; file && got["a/b/c"] != "" {
		t.Error("a file is where a directory is")
	}
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "a") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
