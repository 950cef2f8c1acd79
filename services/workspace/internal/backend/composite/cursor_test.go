package composite_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// maxCursorBytes is what the API takes as a cursor.
const maxCursorBytes = 256

// follow returns the paths that changed after a cursor, and the cursor to go on from, which goes through its text.
func follow(t *testing.T, s files.Store, space files.Space, after files.Cursor) ([]string, files.Cursor) {
	t.Helper()
	var got []string
	end, err := plain(s, space).Follow(t.Context(), after, 0, nil, func(c files.Change) error {
		got = append(got, c.Path.String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := files.ParseCursor(end.String())
	if err != nil || again != end || len(end.String()) > maxCursorBytes {
		t.Errorf("the cursor %s is read as %s, %v", end, again, err)
	}
	return got, again
}

// Changes of all stores come after one cursor, each once, those of one store in order; the cursor lasts through restarts, and routes that are added.
func TestCursor(t *testing.T) {
	b := newBench(t, "r", "second")
	space := user("ana")
	v := plain(b.alive, space)
	put := func(names ...string) {
		for _, name := range names {
			b.write(v, map[string]string{name: name})
		}
	}
	_, start := follow(t, b.alive, space, files.Cursor{})
	put("a", "r/1", "b", "r/2", "c")
	got, middle := follow(t, b.alive, space, start)
	if fmt.Sprint(got) != "[a r/1 b r/2 c]" {
		t.Errorf("first %q", got)
	}
	if head, err := b.alive.Head(t.Context(), space); err != nil || head != middle || head.Seq != 5 {
		t.Errorf("the head is %v, %v, want %v", head, err, middle)
	}
	put("r/3", "d")
	restarted, err := composite.New(b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	got, end := follow(t, restarted, space, middle)
	if fmt.Sprint(got) != "[r/3 d]" {
		t.Errorf("after a restart: %q", got)
	}
	if got, _ := follow(t, restarted, space, end); len(got) != 0 {
		t.Errorf("again: %q", got)
	}
	// Page by page, through the text of the cursor each time.
	var all []string
	for at := (files.Cursor{}); ; {
		page, err := b.alive.Changes(t.Context(), space, at, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page[0].Path.String())
		if at, err = files.ParseCursor(page[0].Cursor.String()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	if fmt.Sprint(all) != "[a b c d r/1 r/2 r/3]" {
		t.Errorf("page by page: %q", all)
	}

	// A cursor of the default store alone goes on holding when routes are added: those begin at their start.
	_, alone := follow(t, b.inner[0], space, files.Cursor{})
	if got, _ := follow(t, b.alive, space, alone); fmt.Sprint(got) != "[r/1 r/2 r/3]" {
		t.Errorf("with a route that was added: %q", got)
	}
	// A cursor that knows a store which is gone has expired.
	less := b.cfg
	less.Others, less.Routes = nil, nil
	without, err := composite.New(less)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]files.Cursor{
		"a store that is gone": end, "cut": {Generation: end.Generation[:len(end.Generation)-3], Seq: end.Seq}, "another count": {Generation: end.Generation, Seq: end.Seq - 1},
		"garbage": {Generation: "~####", Seq: 1}, "nothing": {Generation: "~", Seq: 3}, "ahead": {Generation: end.Generation, Seq: 1 << 50},
	} {
		if _, err := without.Changes(t.Context(), space, c, 10); errdefs.ReasonOf(err) != fsops.ReasonCursorExpired {
			t.Errorf("%s: %v", name, err)
		}
		if err := without.Wait(t.Context(), space, c); errdefs.ReasonOf(err) != fsops.ReasonCursorExpired {
			t.Errorf("wait, %s: %v", name, err)
		}
	}
	// Forgetting ends all cursors.
	if _, err := b.alive.Forget(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	if _, err := b.alive.Changes(t.Context(), space, middle, 10); errdefs.ReasonOf(err) != fsops.ReasonCursorExpired {
		t.Errorf("after forgetting: %v", err)
	}
}

// A cursor over as many stores as there are backends fits the API.
func TestCursorIsBounded(t *testing.T) {
	cfg := composite.Config{Default: named("local", openLocal(t))}
	for _, name := range []string{"sqlite", "postgres", "redis", "object"} {
		cfg.Others = append(cfg.Others, named(name, openSQLite(t)))
		cfg.Routes = append(cfg.Routes, composite.Route{Prefix: name, To: name})
	}
	s := open(t, cfg)
	space := user("ana")
	for _, p := range []string{"x", "sqlite/x", "postgres/x", "redis/x", "object/x"} {
		if _, err := plain(s, space).Append(t.Context(), files.Call{}, path(p), []byte("x"), false); err != nil {
			t.Fatal(err)
		}
	}
	got, end := follow(t, s, space, files.Cursor{})
	if len(got) != 5 {
		t.Errorf("changes %q", got)
	}
	slices.Reverse(cfg.Others)
	turned, err := composite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if head, err := turned.Head(t.Context(), space); err != nil || head != end {
		t.Errorf("with the stores in another order, the cursor is %s, %v, want %s", head, err, end)
	}
}

// A watcher sees what happens in any store while it waits.
func TestWatchAcross(t *testing.T) {
	b := newBench(t, "r", "second")
	space := user("ana")
	v := plain(b.alive, space)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting, seen := make(chan struct{}, 100), make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		_, err := v.Follow(ctx, files.Cursor{}, time.Minute, func(files.Cursor) error { waiting <- struct{}{}; return nil }, func(c files.Change) error {
			seen <- fmt.Sprint(c.Kind, c.Path, c.From)
			return nil
		})
		done <- err
	}()
	<-waiting
	next := func() string {
		select {
		case s := <-seen:
			return s
		case <-ctx.Done():
			return "nothing"
		}
	}
	for _, p := range []string{"r/a", "b", "r/c"} {
		b.write(v, map[string]string{p: p})
		if got := next(); got != "1 "+p+" " {
			t.Errorf("saw %q after the write of %s", got, p)
		}
	}
	if _, err := v.Move(ctx, files.Call{}, files.Move{From: path("b"), To: path("r/b")}); err != nil {
		t.Fatal(err)
	}
	got := []string{next(), next()}
	slices.Sort(got)
	if strings.Join(got, ", ") != "2 b , 3 r/b b" {
		t.Errorf("a move across is seen as %q", got)
	}
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("the watcher ended with %v", err)
	}
}
