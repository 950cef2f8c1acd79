package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// together runs f n times at once.
func together(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

func concurrentCreates(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	var won atomic.Int32
	together(32, func(i int) {
		staged, err := u.store.Stage(u.ctx, strings.NewReader(fmt.Sprint(i)), 0)
		if err != nil {
			t.Errorf("stage: %v", err)
			return
		}
		_, err = u.View.Write(u.ctx, call, files.Write{Path: path("only"), Mode: files.Create}, staged)
		switch {
		case err == nil:
			won.Add(1)
		case errdefs.ReasonOf(err) != fsops.ReasonPathExists:
			t.Errorf("create: %v", err)
		}
	})
	if won.Load() != 1 {
		t.Errorf("%d of 32 creations of one path succeeded", won.Load())
	}
}

func concurrentEdits(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	const writers, rounds = 8, 10
	u.write("f", "end\n")
	together(writers, func(w int) {
		for r := range rounds {
			line := fmt.Sprintf("w%d-r%d\n", w, r)
			if _, err := u.Edit(u.ctx, call, path("f"), []fsops.Replacement{{Old: "end\n", New: line + "end\n"}}, ""); err != nil {
				t.Errorf("edit: %v", err)
				return
			}
		}
	})
	got := u.read("f")
	for w := range writers {
		for r := range rounds {
			if line := fmt.Sprintf("w%d-r%d\n", w, r); strings.Count(got, line) != 1 {
				t.Errorf("line %q occurs %d times", line, strings.Count(got, line))
			}
		}
	}
}

func concurrentAppends(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	const writers, rounds = 8, 20
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			data, err := u.tryRead("log")
			if err != nil && errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
				t.Errorf("read: %v", err)
				return
			}
			if data != "" && !strings.HasSuffix(data, ".\n") {
				t.Errorf("a reader sees half an append: %s", short(data))
				return
			}
		}
	})
	together(writers, func(w int) {
		for r := range rounds {
			if _, err := u.Append(u.ctx, call, path("log"), fmt.Appendf(nil, "w%d-r%d%s.\n", w, r, strings.Repeat("-", 1000)), false); err != nil {
				t.Errorf("append: %v", err)
				return
			}
		}
	})
	close(stop)
	reader.Wait()
	got := u.read("log")
	for w := range writers {
		for r := range rounds {
			if line := fmt.Sprintf("w%d-r%d-", w, r); strings.Count(got, line) != 1 {
				t.Errorf("%q occurs %d times", line, strings.Count(got, line))
			}
		}
	}
	if n := strings.Count(got, "\n"); n != writers*rounds {
		t.Errorf("%d lines, want %d", n, writers*rounds)
	}
}

// Many updates at once that look into layers of the same store don't wait for each other for ever.
func concurrentLayers(t testkit.T, factory Factory) {
	ana, _, _ := layered(t, factory)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	together(40, func(i int) {
		b := bucket
		b.User = fmt.Sprint("user-", i)
		u := as(t, ana.store, b, ana.Lower()...)
		for _, name := range []string{"knowledge/a.md", "AGENTS.md"} {
			if _, err := u.Append(ctx, call, path(name), []byte(b.User), false); err != nil {
				t.Errorf("%s: %v", b.User, err)
				return
			}
		}
		u.has("AGENTS.md", "override AGENTS.md"+b.User)
	})
}

func cancelled(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("f", "1")
	staged := u.stage("2")
	defer staged.Discard()
	ctx, cancel := context.WithCancel(u.ctx)
	cancel()
	for name, f := range map[string]func() error{
		"stat":  func() error { _, err := u.Stat(ctx, path("f")); return err },
		"list":  func() error { _, err := u.List(ctx, path(""), false, 10, ""); return err },
		"open":  func() error { _, _, err := u.Open(ctx, path("f")); return err },
		"write": func() error { _, err := u.View.Write(ctx, call, files.Write{Path: path("f")}, staged); return err },
		"stage": func() error { _, err := u.store.Stage(ctx, strings.NewReader("x"), 0); return err },
		"wait":  func() error { head, _ := u.Head(u.ctx); return u.store.Wait(ctx, u.Space(), head) },
	} {
		if err := f(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	u.has("f", "1")
}

func afterClose(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("f", "1")
	head, _ := u.Head(u.ctx)
	waiting := make(chan error, 1)
	go func() { waiting <- u.store.Wait(u.ctx, u.Space(), head) }()
	if err := u.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := u.store.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	select {
	case <-waiting:
	case <-time.After(10 * time.Second):
		t.Error("a waiter outlives the store")
	}
	for name, f := range map[string]func() error{
		"stat":   func() error { _, err := u.Stat(u.ctx, path("f")); return err },
		"stage":  func() error { _, err := u.store.Stage(u.ctx, strings.NewReader("x"), 0); return err },
		"head":   func() error { _, err := u.Head(u.ctx); return err },
		"forget": func() error { _, err := u.store.Forget(u.ctx, u.Space()); return err },
		"append": func() error { _, err := u.Append(u.ctx, call, path("f"), []byte("x"), false); return err },
	} {
		if err := f(); !isClass(err, errdefs.ErrUnavailable, errdefs.ErrFailedPrecondition) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
}
