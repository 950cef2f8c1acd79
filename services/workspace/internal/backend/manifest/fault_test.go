package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const space = files.Space("default/user/coder/ana")

var call = files.Call{Author: "ana"}

func view(s *manifest.Store) *files.View {
	return files.NewView(s, space, nil, files.Limits{}, time.Now)
}

func tryWrite(ctx context.Context, s *manifest.Store, call files.Call, path, content string) (files.Written, error) {
	staged, err := s.Stage(ctx, strings.NewReader(content), 0)
	if err != nil {
		return files.Written{}, err
	}
	return view(s).Write(ctx, call, files.Write{Path: fsops.PathOf(path)}, staged)
}

func write(t testing.TB, s *manifest.Store, path, content string) {
	t.Helper()
	if _, err := tryWrite(t.Context(), s, call, path, content); err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
}

func has(t testing.TB, s *manifest.Store, path, want string) {
	t.Helper()
	if _, got, err := view(s).ReadAll(t.Context(), fsops.PathOf(path), 64<<20); err != nil || string(got) != want {
		t.Errorf("%s holds %.60q, %v, want %.60q", path, got, err, want)
	}
}

var errDriver = errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "the store can't be reached now")

// on fails a call of the driver the given number of times.
func on(call string, times int32) func(string) error {
	var n atomic.Int32
	return func(c string) error {
		if c == call && n.Add(1) <= times {
			return errDriver
		}
		return nil
	}
}

// An entry that was made although the answer was lost counts once.
func TestAnswerLost(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	write(t, s, "a", "1")
	m.after = on("create", 1)
	once := files.Call{Author: "ana", Effect: files.Effect{ID: "e", Hash: "h"}}
	if _, err := view(s).Append(t.Context(), once, fsops.PathOf("a"), []byte("2"), false); err != nil {
		t.Errorf("append: %v", err)
	}
	has(t, s, "a", "12")
	has(t, open(t, m, manifest.Config{}), "a", "12")
}

// An entry of which nobody knows whether it was made leaves its content alone: it may turn up later, whole.
func TestOutcomeUnknown(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	write(t, s, "a", "1")
	lost := map[bool]string{true: "made", false: "not made"}
	for made := range lost {
		t.Run(lost[made], func(t *testing.T) {
			broken := func(c string) error {
				if c == "create" || c == "entries" {
					return errDriver
				}
				return nil
			}
			if made {
				m.after = func(c string) error {
					if c == "create" {
						m.before = broken
					}
					return broken(c)
				}
			} else {
				m.before = broken
			}
			path, big := "new-"+lost[made][:3], strings.Repeat("x", 3<<20)
			once := files.Call{Author: "ana", Effect: files.Effect{ID: path, Hash: "h"}}
			_, err := tryWrite(t.Context(), s, once, path, big)
			m.before, m.after = nil, nil
			if !errors.Is(err, errdefs.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			if !made {
				if _, err := view(s).Stat(t.Context(), fsops.PathOf(path)); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
					t.Errorf("the file that was not made: %v", err)
				}
			} else {
				has(t, s, path, big)
			}
			// The caller repeats, as the error says.
			if _, err := tryWrite(t.Context(), s, once, path, big); err != nil {
				t.Errorf("again: %v", err)
			}
			has(t, s, path, big)
		})
	}
}

// A store that fails anywhere gives a typed error, keeps what it had, and works again afterwards.
func TestFailures(t *testing.T) {
	for _, fault := range []string{"create", "after", "put", "adopt", "stage", "get", "checkpoints"} {
		t.Run(fault, func(t *testing.T) {
			m := newMemory()
			s := open(t, m, manifest.Config{})
			write(t, s, "a", "1")
			s = open(t, m, manifest.Config{})
			m.before = func(c string) error {
				if c == fault {
					return errDriver
				}
				return nil
			}
			_, errSmall := tryWrite(t.Context(), s, call, "b", "2")
			_, errLarge := tryWrite(t.Context(), s, call, "c", strings.Repeat("x", 2<<20))
			_, _, errRead := view(s).ReadAll(t.Context(), fsops.PathOf("a"), 10)
			m.before = nil
			failed := 0
			for _, err := range []error{errSmall, errLarge, errRead} {
				if err != nil {
					failed++
					if !errors.Is(err, errdefs.ErrUnavailable) {
						t.Errorf("not typed: %v", err)
					}
				}
			}
			if failed == 0 {
				t.Error("nothing failed")
			}
			has(t, s, "a", "1")
			write(t, s, "b", "3")
			has(t, s, "b", "3")
		})
	}
}

// Several updates that wait for the store share an entry.
func TestShared(t *testing.T) { synctest.Test(t, testShared) }

func testShared(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	write(t, s, "log", "")
	before := m.count("create")
	m.before = func(c string) error {
		if c == "create" {
			time.Sleep(2 * time.Millisecond) // of the bubble: a store that is far away
		}
		return nil
	}
	const writers, rounds = 16, 10
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for r := range rounds {
				if _, err := view(s).Append(t.Context(), call, fsops.PathOf("log"), fmt.Appendf(nil, "%d-%d\n", w, r), false); err != nil {
					t.Errorf("append: %v", err)
				}
			}
		})
	}
	wait.Wait()
	_, got, err := view(s).ReadAll(t.Context(), fsops.PathOf("log"), 1<<20)
	if err != nil || strings.Count(string(got), "\n") != writers*rounds {
		t.Errorf("%d lines, %v", strings.Count(string(got), "\n"), err)
	}
	if made := m.count("create") - before; made > writers*rounds/3 {
		t.Errorf("%d updates made %d entries", writers*rounds, made)
	}
	has(t, open(t, m, manifest.Config{}), "log", string(got))
}

// In a batch, an update that fails or panics takes nothing from the others, and one whose caller has gone away ends.
func TestBatchMembersApart(t *testing.T) { synctest.Test(t, testBatchMembersApart) }

func testBatchMembersApart(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	m.before = func(c string) error {
		if c == "create" {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if i%4 == 3 {
				cancel()
			}
			_, err := s.Update(ctx, space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
				staged, err := s.Stage(ctx, strings.NewReader(fmt.Sprint(i)), 0)
				if err != nil {
					return nil, err
				}
				if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf(fmt.Sprint("f/", i)), Content: staged, Mode: 0o644}); err != nil {
					return nil, err
				}
				switch i % 4 {
				case 1:
					return nil, errors.New("changed its mind")
				case 2:
					panic("on purpose")
				}
				return nil, nil
			})
			if (err == nil) != (i%4 == 0) {
				t.Errorf("update %d: %v", i, err)
			}
		})
	}
	wait.Wait()
	page, err := s.Space(space).Children(t.Context(), fsops.PathOf("f"), "", 100)
	if err != nil || len(page.Nodes) != 10 {
		t.Errorf("%d files, %v, want 10", len(page.Nodes), err)
	}
}

// A function that ends its goroutine does not keep the turn.
func TestGoexit(t *testing.T) {
	s := open(t, newMemory(), manifest.Config{})
	failures := testkit.Failures(func(t testkit.T) {
		_, _ = s.Update(t.Context(), space, files.Effect{}, func(context.Context, files.Tx) ([]byte, error) {
			t.Fatal("on purpose")
			return nil, nil
		})
	})
	if len(failures) != 1 {
		t.Fatalf("failures %q", failures)
	}
	write(t, s, "a", "1")
	has(t, s, "a", "1")
}
