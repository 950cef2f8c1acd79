package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func appends(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	add := func(text string, newline bool) files.Appended {
		t.Helper()
		out, err := u.Append(u.ctx, call, path("log"), []byte(text), newline)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	add("one", true)
	if out := add("two\n", true); out.Offset != 4 || out.Entry.Size != 8 {
		t.Errorf("append: %+v", out)
	}
	add("three", true)
	u.has("log", "one\ntwo\nthree")
	e, err := u.Stat(u.ctx, path("log"))
	whole := u.write("copy", "one\ntwo\nthree")
	if err != nil || e.SHA256 != whole.Entry.SHA256 {
		t.Errorf("the SHA-256 after appends is %s, want %s, %v", e.SHA256, whole.Entry.SHA256, err)
	}
	u.write("empty", "")
	if _, err := u.Append(u.ctx, call, path("empty"), []byte("x"), true); err != nil {
		t.Fatal(err)
	}
	u.has("empty", "x")
}

func appendBig(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	var want strings.Builder
	for i := range 40 {
		part := fmt.Sprintf("%d\x00%s", i, strings.Repeat("é", i*i*40))
		want.WriteString(part)
		if _, err := u.Append(u.ctx, call, path("f"), []byte(part), false); err != nil {
			t.Fatal(err)
		}
	}
	u.has("f", want.String())
}

func edits(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("f", "a\r\nb\r\nc\r\n")
	out, err := u.Edit(u.ctx, call, path("f"), []fsops.Replacement{{Old: "a\nb", New: "A\nB\nX"}, {Old: "c", New: "C"}}, "")
	if err != nil || fmt.Sprint(out.Counts) != "[1 1]" || !strings.Contains(out.Diff, "+A") {
		t.Fatalf("edit: %+v, %v", out, err)
	}
	u.has("f", "A\r\nB\r\nX\r\nC\r\n")
	_, err = u.Edit(u.ctx, call, path("f"), []fsops.Replacement{{Old: "A", New: "1"}, {Old: "none", New: "2"}}, "")
	u.fails(err, fsops.ReasonEditNoMatch)
	_, err = u.Edit(u.ctx, call, path("f"), []fsops.Replacement{{Old: "A", New: "1"}}, "old-revision")
	u.fails(err, fsops.ReasonRevisionConflict)
	u.has("f", "A\r\nB\r\nX\r\nC\r\n")
	_, err = u.Edit(u.ctx, call, path("none"), []fsops.Replacement{{Old: "A", New: "1"}}, "")
	u.fails(err, fsops.ReasonPathNotFound)
	if _, err = u.Edit(u.ctx, call, path("f"), []fsops.Replacement{{Old: "A", New: "1"}}, out.Entry.Revision); err != nil {
		t.Error(err)
	}
}

func deletes(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	for _, name := range []string{"d/a", "d/e/b", "dd", "x"} {
		u.write(name, "12")
	}
	_, err := u.Delete(u.ctx, call, files.Delete{Path: path("d")})
	u.fails(err, fsops.ReasonDirectoryNotEmpty)
	_, err = u.Delete(u.ctx, call, files.Delete{Path: path(""), Recursive: true})
	u.fails(err, fsops.ReasonIsDirectory)
	_, err = u.Delete(u.ctx, call, files.Delete{Path: path("none")})
	u.fails(err, fsops.ReasonPathNotFound)
	if _, err = u.Delete(u.ctx, call, files.Delete{Path: path("none"), AllowMissing: true}); err != nil {
		t.Error(err)
	}
	_, err = u.Delete(u.ctx, call, files.Delete{Path: path("x"), Revision: "other"})
	u.fails(err, fsops.ReasonRevisionConflict)
	if out := u.remove("d"); out.Files != 2 {
		t.Errorf("deleted %d files, want 2", out.Files)
	}
	u.shows("", true, "dd", "x")
	u.remove("x")
	used, _, err := u.Usage(u.ctx)
	if err != nil || used.Files != 1 || used.Bytes != 2 {
		t.Errorf("usage %+v, %v", used, err)
	}
}

func moves(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	mv := func(from, to string, overwrite bool) (files.Moved, error) {
		return u.Move(u.ctx, call, files.Move{From: path(from), To: path(to), Overwrite: overwrite})
	}
	for _, name := range []string{"d/a", "d/e/b", "f", "g"} {
		u.write(name, name)
	}
	if out, err := mv("d", "new/place", false); err != nil || out.Files != 2 || out.Entry.Kind != files.KindDir {
		t.Fatalf("move a directory: %+v, %v", out, err)
	}
	u.shows("", true, "f", "g", "new/", "new/place/", "new/place/a", "new/place/e/", "new/place/e/b")
	u.has("new/place/e/b", "d/e/b")
	_, err := mv("f", "g", false)
	u.fails(err, fsops.ReasonPathExists)
	if _, err := mv("f", "f", false); err != nil {
		t.Errorf("a move onto itself: %v", err)
	}
	u.has("f", "f")
	if _, err := mv("f", "g", true); err != nil {
		t.Errorf("a move over a file: %v", err)
	}
	u.has("g", "f")
	u.lacks("f")
	_, err = mv("new", "new/place/x", false)
	if !isClass(err, errdefs.ErrFailedPrecondition) {
		t.Errorf("a directory into itself: %v", err)
	}
	_, err = mv("g", "new", true)
	u.fails(err, fsops.ReasonPathExists)
	_, err = mv("none", "x", false)
	u.fails(err, fsops.ReasonPathNotFound)
	_, err = mv("g", "g/x", false)
	if err == nil {
		t.Error("a file was moved below itself")
	}
	if _, err := mv("g", "G", false); err != nil {
		t.Errorf("to another letter case: %v", err)
	}
	u.has("G", "f")
	u.shows("", false, "G", "new/")
}

func changeLog(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	start, err := u.Head(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := u.write("a", "1")
	u.write("a", "2")
	if _, err := u.Move(u.ctx, call, files.Move{From: path("a"), To: path("b")}); err != nil {
		t.Fatal(err)
	}
	last := u.remove("b")
	collect := func(after files.Cursor) (got []string, end files.Cursor) {
		t.Helper()
		end, err := u.Follow(u.ctx, after, 0, nil, func(c files.Change) error {
			if c.Author != "ana" || c.Time.IsZero() {
				t.Errorf("change %+v", c)
			}
			got = append(got, fmt.Sprint(c.Kind, c.Path, c.From))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got, end
	}
	want := []string{"1 a ", "1 a ", "3 b a", "2 b "}
	got, end := collect(start)
	if fmt.Sprint(got) != fmt.Sprint(want) || end.String() != last.Cursor {
		t.Errorf("changes %q to %s, want %q to %s", got, end, want, last.Cursor)
	}
	middle, err := files.ParseCursor(first.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := collect(middle); fmt.Sprint(got) != fmt.Sprint(want[1:]) {
		t.Errorf("changes after the first: %q", got)
	}
	_, err = u.store.Changes(u.ctx, u.Space(), files.Cursor{Generation: middle.Generation, Seq: 1 << 40}, 1)
	u.fails(err, fsops.ReasonCursorExpired)
	_, err = u.store.Changes(u.ctx, u.Space(), files.Cursor{Generation: "other", Seq: 1}, 1)
	u.fails(err, fsops.ReasonCursorExpired)
}

func waits(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("a", "1")
	head, err := u.Head(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(u.ctx, 30*time.Second)
	defer cancel()
	waiting, seen := make(chan struct{}), make(chan string, 1)
	go func() {
		_, err := u.Follow(ctx, head, 20*time.Second, func(files.Cursor) error { close(waiting); return nil }, func(c files.Change) error {
			seen <- c.Path.String()
			return context.Canceled
		})
		if err != context.Canceled {
			seen <- fmt.Sprint(err)
		}
	}()
	<-waiting
	u.write("b", "2")
	if got := <-seen; got != "b" {
		t.Errorf("the waiter saw %q", got)
	}
	head, err = u.Head(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := u.Follow(u.ctx, head, time.Millisecond, func(files.Cursor) error { return nil }, nil); err != nil || end != head {
		t.Errorf("a wait without a change: %v, %v", end, err)
	}
}

func effects(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	once := files.Call{Author: "ana", Effect: files.Effect{ID: "e1", Hash: "h1"}}
	first, err := u.View.Write(u.ctx, once, files.Write{Path: path("f"), Mode: files.Create}, u.stage("1"))
	if err != nil {
		t.Fatal(err)
	}
	u.write("f", "2")
	again, err := u.View.Write(u.ctx, once, files.Write{Path: path("f"), Mode: files.Create}, u.stage("1"))
	if err != nil || again.Entry.Revision != first.Entry.Revision || again.Cursor != first.Cursor || !again.Created {
		t.Errorf("a repeat: %+v, %v, want the recorded outcome %+v", again, err, first)
	}
	u.has("f", "2")
	other := files.Call{Effect: files.Effect{ID: "e1", Hash: "h2"}}
	_, err = u.Append(u.ctx, other, path("f"), []byte("x"), false)
	u.fails(err, fsops.ReasonEffectMismatch)
	u.has("f", "2")
	add := files.Call{Effect: files.Effect{ID: "e2", Hash: "h"}}
	for range 3 {
		if _, err := u.Append(u.ctx, add, path("f"), []byte("+"), false); err != nil {
			t.Fatal(err)
		}
	}
	u.has("f", "2+")
	// A call that failed is not recorded: nothing happened.
	fail := files.Call{Effect: files.Effect{ID: "e3", Hash: "h"}}
	_, err = u.Edit(u.ctx, fail, path("later"), []fsops.Replacement{{Old: "a", New: "b"}}, "")
	u.fails(err, fsops.ReasonPathNotFound)
	u.write("later", "a")
	if _, err = u.Edit(u.ctx, fail, path("later"), []fsops.Replacement{{Old: "a", New: "b"}}, ""); err != nil {
		t.Error(err)
	}
	u.has("later", "b")
	// Ids belong to a bucket.
	b := bucket
	b.User = "ben"
	ben := as(t, u.store, b)
	if _, err := ben.Append(ben.ctx, other, path("f"), []byte("x"), false); err != nil {
		t.Errorf("the same id in another bucket: %v", err)
	}
}

// An update that fails half-way leaves nothing behind.
func failedUpdates(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("kept", "1")
	head, _ := u.Head(u.ctx)
	staged := u.stage("new")
	broken := fmt.Errorf("broken")
	_, err := u.store.Update(u.ctx, u.Space(), files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		if _, err := tx.Put(ctx, files.File{Path: path("d/new"), Content: staged, Mode: 0o644}); err != nil {
			return nil, err
		}
		if err := tx.Remove(ctx, path("kept")); err != nil {
			return nil, err
		}
		if err := tx.SetWhiteout(ctx, path("w")); err != nil {
			return nil, err
		}
		if nodes, err := tx.Get(ctx, path("d/new"), path("kept")); err != nil || !nodes[0].Exists() || nodes[1].Exists() {
			t.Errorf("an update does not see its own writes: %+v, %v", nodes, err)
		}
		if err := tx.Log(ctx, files.Change{Kind: files.ChangeWritten, Path: path("d/new")}); err != nil {
			return nil, err
		}
		return nil, broken
	})
	staged.Discard()
	if err == nil {
		t.Error("the update did not fail")
	}
	u.shows("", true, "kept")
	u.has("kept", "1")
	if now, _ := u.Head(u.ctx); now != head {
		t.Errorf("the change log went from %v to %v", head, now)
	}
	if whites, err := u.store.Space(u.Space()).Whiteouts(u.ctx); err != nil || len(whites) != 0 {
		t.Errorf("whiteouts %q, %v", whites, err)
	}
	_, err = u.store.Update(u.ctx, u.Space(), files.Effect{}, func(context.Context, files.Tx) ([]byte, error) { panic("on purpose") })
	if err == nil {
		t.Error("a panic in an update is no error")
	}
	u.write("after", "2")
	u.has("after", "2")
}

func quotas(t testkit.T, factory Factory) {
	store := factory(t)
	u := as(t, store, bucket)
	u.View = files.NewView(store, files.BucketSpace(bucket), nil, files.Limits{Bytes: 10, Files: 2, FileBytes: 8}, time.Now)
	_, err := u.tryWrite(files.Write{Path: path("big")}, "123456789")
	u.fails(err, fsops.ReasonTooLarge)
	u.write("a", "123456")
	_, err = u.tryWrite(files.Write{Path: path("b")}, "12345")
	u.fails(err, fsops.ReasonQuotaExceeded)
	u.lacks("b")
	u.write("b", "1234")
	_, err = u.tryWrite(files.Write{Path: path("c")}, "")
	u.fails(err, fsops.ReasonQuotaExceeded)
	_, err = u.Append(u.ctx, call, path("a"), []byte("7"), false)
	u.fails(err, fsops.ReasonQuotaExceeded)
	u.has("a", "123456")
	u.remove("b")
	if _, err := u.Append(u.ctx, call, path("a"), []byte("78"), false); err != nil {
		t.Error(err)
	}
	_, err = u.Append(u.ctx, call, path("a"), []byte("9"), false)
	u.fails(err, fsops.ReasonTooLarge)
}
