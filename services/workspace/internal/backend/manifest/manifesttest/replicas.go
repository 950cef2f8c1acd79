package manifesttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

// Replica opens one more store on the data of a test. It closes with the test.
type Replica func(t testkit.T) files.Store

// Factory returns a place for data that is empty.
type Factory func(t testkit.T) Replica

// Run runs the suite.
func Run(t testkit.T, factory Factory) {
	t.Run("written here, read there", func(t testkit.T) {
		storetest.Run(t, func(t testkit.T) files.Store {
			replica := factory(t)
			return &apart{Store: replica(t), reads: replica(t)}
		})
	})
	t.Run("writers in three replicas", func(t testkit.T) { writers(t, factory(t)) })
	t.Run("creators in three replicas", func(t testkit.T) { creators(t, factory(t)) })
	t.Run("effects in two replicas", func(t testkit.T) { effects(t, factory(t)) })
	t.Run("wait for another replica", func(t testkit.T) { waits(t, factory(t)) })
	t.Run("a replica that comes late", func(t testkit.T) { late(t, factory(t)) })
	t.Run("forgotten by another replica", func(t testkit.T) { forgotten(t, factory(t)) })
	t.Run("names of spaces", func(t testkit.T) { names(t, factory(t)) })
}

// apart writes through one replica and reads through another.
type apart struct {
	files.Store
	reads files.Store
}

func (a *apart) Space(s files.Space) files.Own { return a.reads.Space(s) }
func (a *apart) Head(ctx context.Context, s files.Space) (files.Cursor, error) {
	return a.reads.Head(ctx, s)
}
func (a *apart) Changes(ctx context.Context, s files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	return a.reads.Changes(ctx, s, after, limit)
}
func (a *apart) Wait(ctx context.Context, s files.Space, after files.Cursor) error {
	return a.reads.Wait(ctx, s, after)
}
func (a *apart) Usage(ctx context.Context, s files.Space) (files.Usage, error) {
	return a.reads.Usage(ctx, s)
}
func (a *apart) Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, error) {
	return a.reads.Spaces(ctx, prefix, after, limit)
}
func (a *apart) Forget(ctx context.Context, s files.Space) (int64, error) {
	return a.reads.Forget(ctx, s)
}
func (a *apart) Close() error { return errors.Join(a.Store.Close(), a.reads.Close()) }

const space = files.Space("default/user/coder/ana")

var call = files.Call{Author: "ana"}

func view(s files.Store, name files.Space) *files.View {
	return files.NewView(s, name, nil, files.Limits{}, time.Now)
}

// write writes a file and fails the test when it can't.
func write(t testkit.T, s files.Store, name files.Space, path, content string) files.Written {
	t.Helper()
	out, err := tryWrite(t.Context(), s, name, call, files.Write{Path: fsops.PathOf(path)}, strings.NewReader(content))
	if err != nil {
		t.Fatalf("write %q in %q: %v", path, name, err)
	}
	return out
}

func tryWrite(ctx context.Context, s files.Store, name files.Space, call files.Call, w files.Write, content io.Reader) (files.Written, error) {
	staged, err := s.Stage(ctx, content, 0)
	if err != nil {
		return files.Written{}, err
	}
	return view(s, name).Write(ctx, call, w, staged)
}

// has fails unless a file has this content.
func has(t testkit.T, s files.Store, name files.Space, path, want string) {
	t.Helper()
	_, got, err := view(s, name).ReadAll(t.Context(), fsops.PathOf(path), 64<<20)
	if err != nil || string(got) != want {
		t.Errorf("%q in %q holds %.80q, %v, want %.80q", path, name, got, err, want)
	}
}

// lacks fails unless nothing is at a path.
func lacks(t testkit.T, s files.Store, name files.Space, path string) {
	t.Helper()
	if _, err := view(s, name).Stat(t.Context(), fsops.PathOf(path)); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
		t.Errorf("%q in %q: %v", path, name, err)
	}
}

// writers appends and edits through three replicas at once: nothing is lost, and nothing happens twice.
func writers(t testkit.T, replica Replica) {
	const each, rounds = 3, 12
	stores := []files.Store{replica(t), replica(t), replica(t)}
	write(t, stores[0], space, "edited", "end\n")
	var wait sync.WaitGroup
	for i, s := range stores {
		for w := range each {
			wait.Go(func() {
				for r := range rounds {
					line := fmt.Sprintf("s%d-w%d-r%d\n", i, w, r)
					if _, err := view(s, space).Append(t.Context(), call, fsops.PathOf("log"), []byte(line), false); err != nil {
						t.Errorf("append: %v", err)
						return
					}
					if _, err := view(s, space).Edit(t.Context(), call, fsops.PathOf("edited"), []fsops.Replacement{{Old: "end\n", New: line + "end\n"}}, ""); err != nil {
						t.Errorf("edit: %v", err)
						return
					}
				}
			})
		}
	}
	wait.Wait()
	for _, path := range []string{"log", "edited"} {
		_, got, err := view(stores[1], space).ReadAll(t.Context(), fsops.PathOf(path), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for i := range stores {
			for w := range each {
				for r := range rounds {
					if line := fmt.Sprintf("s%d-w%d-r%d\n", i, w, r); strings.Count(string(got), line) != 1 {
						t.Errorf("%s has %q %d times", path, line, strings.Count(string(got), line))
					}
				}
			}
		}
		for _, s := range stores {
			has(t, s, space, path, string(got))
		}
	}
}

// creators create one file through three replicas at once: one of them succeeds.
func creators(t testkit.T, replica Replica) {
	stores := []files.Store{replica(t), replica(t), replica(t)}
	for round := range 5 {
		path := fmt.Sprint("only-", round)
		var won sync.Map
		var wait sync.WaitGroup
		for i := range 9 {
			wait.Go(func() {
				w := files.Write{Path: fsops.PathOf(path), Mode: files.Create}
				_, err := tryWrite(t.Context(), stores[i%3], space, call, w, strings.NewReader(fmt.Sprint(i)))
				switch {
				case err == nil:
					won.Store(i, true)
				case errdefs.ReasonOf(err) != fsops.ReasonPathExists:
					t.Errorf("create: %v", err)
				}
			})
		}
		wait.Wait()
		winners := 0
		won.Range(func(i, _ any) bool {
			winners++
			for _, s := range stores {
				has(t, s, space, path, fmt.Sprint(i))
			}
			return true
		})
		if winners != 1 {
			t.Errorf("%d of 9 creations of one path succeeded", winners)
		}
	}
}

// effects repeats a call through another replica: it happens once.
func effects(t testkit.T, replica Replica) {
	stores := []files.Store{replica(t), replica(t)}
	var wait sync.WaitGroup
	var outs [8]files.Appended
	for i := range outs {
		wait.Go(func() {
			var err error
			once := files.Call{Author: "ana", Effect: files.Effect{ID: "e", Hash: "h"}}
			if outs[i], err = view(stores[i%2], space).Append(t.Context(), once, fsops.PathOf("log"), []byte("once\n"), false); err != nil {
				t.Errorf("append: %v", err)
			}
		})
	}
	wait.Wait()
	has(t, stores[0], space, "log", "once\n")
	for _, out := range outs {
		if out.Cursor != outs[0].Cursor || out.Entry.Revision != outs[0].Entry.Revision {
			t.Errorf("two outcomes of one effect: %+v and %+v", out, outs[0])
		}
	}
	other := files.Call{Effect: files.Effect{ID: "e", Hash: "another"}}
	if _, err := view(stores[1], space).Append(t.Context(), other, fsops.PathOf("log"), nil, false); errdefs.ReasonOf(err) != fsops.ReasonEffectMismatch {
		t.Errorf("another request under the same id: %v", err)
	}
}

// waits waits in one replica for what happens in another.
func waits(t testkit.T, replica Replica) {
	here, there := replica(t), replica(t)
	write(t, here, space, "a", "1")
	head, err := here.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(chan string, 1)
	waiting := make(chan struct{})
	go func() {
		_, err := view(here, space).Follow(ctx, head, time.Minute, func(files.Cursor) error { close(waiting); return nil }, func(c files.Change) error {
			seen <- c.Path.String()
			return io.EOF
		})
		if !errors.Is(err, io.EOF) {
			seen <- fmt.Sprint(err)
		}
	}()
	<-waiting
	write(t, there, space, "b", "2")
	if got := <-seen; got != "b" {
		t.Errorf("the waiter saw %q", got)
	}
}

// late reads with a replica that opens after many updates, and goes on from there.
func late(t testkit.T, replica Replica) {
	first := replica(t)
	for i := range 60 {
		write(t, first, space, fmt.Sprint("d/", i%20), fmt.Sprint(i))
	}
	second := replica(t)
	for i := range 20 {
		has(t, second, space, fmt.Sprint("d/", i), fmt.Sprint(i+40))
	}
	write(t, second, space, "d/0", "new")
	has(t, first, space, "d/0", "new")
	changes, err := second.Changes(t.Context(), space, files.Cursor{}, 1000)
	if err != nil || len(changes) != 61 {
		t.Errorf("%d changes, %v, want 61", len(changes), err)
	}
}

// forgotten forgets a space in one replica while another has it in memory.
func forgotten(t testkit.T, replica Replica) {
	here, there := replica(t), replica(t)
	write(t, here, space, "a", "old")
	has(t, there, space, "a", "old")
	head, err := there.Head(t.Context(), space)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := here.Forget(t.Context(), space); err != nil || n != 1 {
		t.Errorf("forgot %d files, %v", n, err)
	}
	lacks(t, there, space, "a")
	if _, err := there.Changes(t.Context(), space, head, 1); errdefs.ReasonOf(err) != fsops.ReasonCursorExpired {
		t.Errorf("changes after a cursor of before: %v", err)
	}
	if all, err := there.Spaces(t.Context(), "", "", 10); err != nil || len(all) != 0 {
		t.Errorf("spaces %q, %v", all, err)
	}
	write(t, there, space, "b", "new")
	lacks(t, here, space, "a")
	has(t, here, space, "b", "new")
	has(t, replica(t), space, "b", "new")
	if all, err := here.Spaces(t.Context(), "", "", 10); err != nil || len(all) != 1 {
		t.Errorf("spaces %q, %v", all, err)
	}
	if n, err := there.Forget(t.Context(), space); err != nil || n != 1 {
		t.Errorf("forgot %d files, %v", n, err)
	}
	if n, err := here.Forget(t.Context(), space); err != nil || n != 0 {
		t.Errorf("forgot %d files of an empty space, %v", n, err)
	}
}
