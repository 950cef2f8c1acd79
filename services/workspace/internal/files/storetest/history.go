package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Place opens the store of one place with a policy and a clock. Called again it opens that place once more: another replica of a shared store, else after the first was closed.
type Place func(policy files.History, now func() time.Time) files.Store

// Places returns a fresh, empty place. Its stores close with the test.
type Places func(t testkit.T) Place

// RunHistory runs the suite of the history of files.
func RunHistory(t testkit.T, places Places) {
	for _, c := range []struct {
		name string
		test func(testkit.T, Places)
	}{
		{"previous revisions", previousRevisions},
		{"count", historyCount},
		{"age", historyAge},
		{"size", historySize},
		{"no history", noHistory},
		{"deleted files", historyOfDeleted},
		{"appends", historyOfAppends},
		{"moves", historyOfMoves},
		{"one update", historyOfOneUpdate},
		{"restart", historyAfterRestart},
		{"isolation", historyIsolation},
		{"forget", historyForget},
		{"restore", restores},
		{"compare", compares},
		{"versions of layers", versionsOfLayers},
		{"pages of versions", pagesOfVersions},
		{"replicas", historyOfReplicas},
	} {
		t.Run(c.name, func(t testkit.T) { c.test(t, places) })
	}
}

// all is a policy that keeps whatever a test writes.
var all = files.History{Count: 1000}

// kept opens a fresh place.
func kept(t testkit.T, places Places, policy files.History) user {
	return as(t, places(t)(policy, time.Now), bucket)
}

// history returns the contents of what is kept of a path, newest first, taken page by page.
func (u user) history(name string) []string {
	u.Helper()
	var out []string
	for _, n := range u.past(name) {
		out = append(out, u.content(n))
	}
	return out
}

// past returns the kept previous revisions of a path, newest first.
func (u user) past(name string) []files.Node {
	u.Helper()
	own := u.store.Space(u.Space())
	var out []files.Node
	for after, more := "", true; more; {
		var page []files.Node
		var err error
		if page, more, err = own.Revisions(u.ctx, path(name), after, 3); err != nil {
			u.Fatalf("the revisions of %q: %v", name, err)
		}
		if more && len(page) == 0 {
			u.Fatalf("an empty page of %q says that more follow", name)
		}
		for _, n := range page {
			after = n.Revision
		}
		out = append(out, page...)
	}
	return out
}

// content reads a kept revision in both ways, and checks its size and that it can be found by its name.
func (u user) content(n files.Node) string {
	u.Helper()
	own := u.store.Space(u.Space())
	c, err := own.Open(u.ctx, n)
	if err != nil {
		u.Fatalf("open revision %s of %q: %v", n.Revision, n.Path.String(), err)
	}
	defer c.Close()
	data, err := readAll(u.ctx, c)
	if err != nil || int64(len(data)) != n.Size {
		u.Errorf("revision %s of %q has %d bytes, not %d: %v", n.Revision, n.Path.String(), len(data), n.Size, err)
	}
	if loaded, err := own.Load(u.ctx, n); err != nil || string(loaded[0]) != string(data) {
		u.Errorf("load of revision %s of %q: %s, %v", n.Revision, n.Path.String(), short(string(loaded[0])), err)
	}
	if same, err := own.Revision(u.ctx, n.Path, n.Revision); err != nil || same != n {
		u.Errorf("revision %s of %q is %+v, want %+v, %v", n.Revision, n.Path.String(), same, n, err)
	}
	return string(data)
}

// had fails unless exactly these contents are kept of a path, newest first.
func (u user) had(name string, want ...string) {
	u.Helper()
	if got := u.history(name); fmt.Sprint(got) != fmt.Sprint(want) {
		u.Errorf("kept of %q: %q, want %q", name, got, want)
	}
}

func previousRevisions(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.had("d/f")
	var written []files.Written
	for i := range 8 {
		written = append(written, u.write("d/f", fmt.Sprint(i)))
	}
	u.had("d/f", "6", "5", "4", "3", "2", "1", "0")
	for i, n := range u.past("d/f") {
		want := written[6-i].Entry
		if n.Revision != want.Revision || n.SHA256 != want.SHA256 || n.Author != "ana" || !n.ModTime.Equal(want.ModTime) || n.Mode != want.Mode ||
			n.Kind != files.KindFile || n.Replaced.Before(n.ModTime) || n.Removed || n.Path.String() != "d/f" {
			t.Errorf("revision %d is %+v, want that of %+v", i, n, want)
		}
	}
	own := u.store.Space(u.Space())
	current, err := own.Revision(u.ctx, path("d/f"), written[7].Entry.Revision)
	if err != nil || current.Revision != written[7].Entry.Revision || !current.Replaced.IsZero() {
		t.Errorf("the current revision by its name: %+v, %v", current, err)
	}
	if n, err := own.Revision(u.ctx, path("d/f"), "no such revision"); err != nil || n.Exists() {
		t.Errorf("a revision that never was: %+v, %v", n, err)
	}
	_, _, err = own.Revisions(u.ctx, path("d/f"), "no such revision", 3)
	u.fails(err, fsops.ReasonTokenInvalid)
	if _, err := u.Edit(u.ctx, call, path("d/f"), []fsops.Replacement{{Old: "7", New: "edited"}}, ""); err != nil {
		t.Fatal(err)
	}
	u.had("d/f", "7", "6", "5", "4", "3", "2", "1", "0")
	e, data, err := u.readRevision("d/f", written[2].Entry.Revision)
	if err != nil || data != "2" || e.Layer != files.LayerBucket {
		t.Errorf("a read by revision: %+v %q, %v", e, data, err)
	}
	_, _, err = u.readRevision("d/f", "none")
	u.fails(err, fsops.ReasonRevisionNotKept)
	if used, _, err := u.Usage(u.ctx); err != nil || used.Bytes != int64(len("edited")) || used.Files != 1 {
		t.Errorf("history counts as usage: %+v, %v", used, err)
	}
}

func (u user) readRevision(name, revision string) (files.Entry, string, error) {
	u.Helper()
	e, content, err := u.OpenRevision(u.ctx, path(name), revision)
	if err != nil {
		return e, "", err
	}
	defer content.Close()
	data, err := readAll(u.ctx, content)
	return e, string(data), err
}

func historyCount(t testkit.T, places Places) {
	const count = 5
	u := kept(t, places, files.History{Count: count})
	for i := range 60 {
		u.write("f", fmt.Sprint(i))
		if _, err := u.Append(u.ctx, call, path("log"), []byte{'x'}, false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		u.write("gone", fmt.Sprint(i))
		u.remove("gone")
	}
	for name, newest := range map[string]int{"f": 58, "log": 59, "gone": 11} {
		got := u.history(name)
		if len(got) < count || len(got) > 3*count {
			t.Errorf("%d revisions of %s are kept, with a count of %d", len(got), name, count)
		}
		for i, content := range got {
			want := fmt.Sprint(newest - i)
			if name == "log" {
				want = strings.Repeat("x", newest-i)
			}
			if content != want {
				t.Errorf("revision %d of %s is %q, want %q", i, name, content, want)
			}
		}
	}
}

// clock is a clock that a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Microseconds()) }

func historyAge(t testkit.T, places Places) {
	c := newClock()
	u := as(t, places(t)(files.History{Count: 1000, Age: time.Hour}, c.now), bucket)
	u.write("f", "old")
	c.advance(10 * time.Hour) // age counts from the replacement
	u.write("f", "new")
	u.write("gone", "gone")
	u.remove("gone")
	// busy writes so much that a store which cleans up now and then does so.
	busy := func() {
		t.Helper()
		for i := range 200 {
			u.write("busy", fmt.Sprint(i))
		}
	}
	c.advance(59 * time.Minute)
	busy()
	u.had("f", "old")
	u.had("gone", "gone")
	c.advance(2 * time.Minute)
	busy()
	u.had("f")
	u.had("gone")
	u.has("f", "new")
}

func historySize(t testkit.T, places Places) {
	u := kept(t, places, files.History{Count: 10, MaxFileBytes: 10})
	for _, content := range []string{"small", strings.Repeat("big", 10), "1234567890", "12345678901", "end"} {
		u.write("f", content)
	}
	u.had("f", "1234567890", "small")
	for _, part := range []string{"12345", "67890", "1", "2"} {
		if _, err := u.Append(u.ctx, call, path("log"), []byte(part), false); err != nil {
			t.Fatal(err)
		}
	}
	u.had("log", "1234567890", "12345")
	u.write("log", "x")
	u.had("log", "1234567890", "12345")
	u.remove("log")
	u.had("log", "x", "1234567890", "12345")
}

func noHistory(t testkit.T, places Places) {
	u := kept(t, places, files.History{})
	u.write("f", "1")
	u.write("f", "2")
	u.write("g", "3")
	if _, err := u.Move(u.ctx, call, files.Move{From: path("g"), To: path("f"), Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	u.remove("f")
	u.had("f")
	u.had("g")
}

func historyOfDeleted(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.write("d/f", "1")
	u.write("d/f", "2")
	u.write("d/g", "g")
	u.remove("d")
	u.lacks("d")
	u.had("d/f", "2", "1")
	u.had("d/g", "g")
	if n := u.past("d/f"); !n[0].Removed || n[1].Removed {
		t.Errorf("the revisions of a deleted file: %+v", n)
	}
	u.write("d", "a file where the directory was")
	u.had("d/f", "2", "1")
	u.remove("d")
	u.write("d/f", "3")
	u.write("d/f", "4")
	u.had("d/f", "3", "2", "1")
	if n := u.past("d/f"); n[0].Removed || !n[1].Removed {
		t.Errorf("the revisions of a file that came back: %+v", n)
	}
}

func historyOfAppends(t testkit.T, places Places) {
	u := kept(t, places, all)
	var want []string
	content := ""
	for i := range 12 {
		part := fmt.Sprintf("%d%s\n", i, strings.Repeat("é", i*i*100))
		if _, err := u.Append(u.ctx, call, path("log"), []byte(part), false); err != nil {
			t.Fatal(err)
		}
		if content != "" {
			want = append([]string{content}, want...)
		}
		content += part
		u.had("log", want...)
	}
	own := u.store.Space(u.Space())
	both := append(u.past("log")[:3:3], u.stat("log"))
	loaded, err := own.Load(u.ctx, both...)
	if err != nil || string(loaded[0]) != want[0] || string(loaded[2]) != want[2] || string(loaded[3]) != content {
		t.Errorf("several revisions of one file loaded at once: %v", err)
	}
	// What follows must not reach into what was kept.
	want = append([]string{content}, want...)
	u.write("log", "new")
	u.had("log", want...)
	if _, err := u.Append(u.ctx, call, path("log"), []byte("er"), false); err != nil {
		t.Fatal(err)
	}
	want = append([]string{"new"}, want...)
	u.had("log", want...)
	u.remove("log")
	u.had("log", append([]string{"newer"}, want...)...)
}

func (u user) stat(name string) files.Node {
	u.Helper()
	n, err := u.store.Space(u.Space()).Get(u.ctx, path(name))
	if err != nil {
		u.Fatal(err)
	}
	return n[0]
}

func historyOfMoves(t testkit.T, places Places) {
	u := kept(t, places, all)
	move := func(from, to string) {
		t.Helper()
		if _, err := u.Move(u.ctx, call, files.Move{From: path(from), To: path(to), Overwrite: true}); err != nil {
			t.Fatal(err)
		}
	}
	u.write("a", "1")
	u.write("a", "2")
	u.write("b", "other")
	move("a", "b")
	u.had("a", "2", "1")
	u.had("b", "other")
	if n := u.past("a"); !n[0].Removed {
		t.Errorf("a revision that was moved away: %+v", n[0])
	}
	if n := u.past("b"); n[0].Removed {
		t.Errorf("a revision that a move replaced: %+v", n[0])
	}
	// The moved file goes on by itself.
	if _, err := u.Append(u.ctx, call, path("b"), []byte("+"), false); err != nil {
		t.Fatal(err)
	}
	u.write("b", "3")
	u.had("a", "2", "1")
	u.had("b", "2+", "2", "other")
	u.write("a", "again")
	u.had("a", "2", "1")
	move("b", "c/d")
	move("c", "e")
	u.had("b", "3", "2+", "2", "other")
	u.had("c/d", "3")
	u.has("e/d", "3")
	u.remove("e")
	u.had("c/d", "3")
	u.had("e/d", "3")
}

// What only one update has seen is no revision; what it found is one, whatever it did on the way.
func historyOfOneUpdate(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.write("twice", "0")
	u.write("back", "0")
	u.write("away", "0")
	u.write("log", "0")
	u.write("new home", "0")
	_, err := u.store.Update(u.ctx, u.Space(), files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		put := func(name, content string) error {
			staged, err := u.store.Stage(ctx, strings.NewReader(content), 0)
			if err == nil {
				_, err = tx.Put(ctx, files.File{Path: path(name), Content: staged, Mode: 0o644})
			}
			return err
		}
		add := func(name, content string) error {
			staged, err := u.store.Stage(ctx, strings.NewReader(content), 0)
			if err == nil {
				_, err = tx.Append(ctx, files.File{Path: path(name), Content: staged})
			}
			return err
		}
		for _, f := range []func() error{
			func() error { return put("twice", "1") },
			func() error { return put("twice", "2") },
			func() error { return add("twice", "+") },
			func() error { return tx.Remove(ctx, path("back")) },
			func() error { return put("back", "1") },
			func() error { return put("away", "1") },
			func() error { return tx.Remove(ctx, path("away")) },
			func() error { return add("log", "1") },
			func() error { return add("log", "2") },
			func() error { return put("short", "1") },
			func() error { return tx.Remove(ctx, path("short")) },
			func() error { return put("from", "moved") },
			func() error { _, err := tx.Rename(ctx, path("from"), path("new home"), "ana"); return err },
			func() error { _, err := tx.Rename(ctx, path("new home"), path("last home"), "ana"); return err },
		} {
			if err := f(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"twice": "2+", "back": "1", "log": "012", "last home": "moved"} {
		u.has(name, content)
	}
	for _, name := range []string{"twice", "back", "away", "log", "new home"} {
		u.had(name, "0")
		removed := name == "away" || name == "new home"
		if n := u.past(name); len(n) == 1 && n[0].Removed != removed {
			t.Errorf("removed is %v for %s", n[0].Removed, name)
		}
	}
	for _, name := range []string{"short", "from", "last home"} {
		u.had(name)
	}
}

func historyAfterRestart(t testkit.T, places Places) {
	place := places(t)
	store := place(all, time.Now)
	u := as(t, store, bucket)
	u.write("f", "1")
	if _, err := u.Append(u.ctx, call, path("f"), []byte("2"), false); err != nil {
		t.Fatal(err)
	}
	u.write("f", "3")
	u.write("gone", "4")
	u.remove("gone")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	u = as(t, place(all, time.Now), bucket)
	u.had("f", "12", "1")
	u.had("gone", "4")
	u.write("f", "5")
	u.had("f", "3", "12", "1")
}

// historyOfReplicas has two replicas write the same files at once, where the store allows it: nothing is lost, and nothing kept twice.
func historyOfReplicas(t testkit.T, places Places) {
	place := places(t)
	stores := []files.Store{place(all, time.Now)}
	if stores[0].Capabilities().Shared {
		stores = append(stores, place(all, time.Now))
	}
	u := as(t, stores[0], bucket)
	const each = 15
	var mu sync.Mutex
	written := map[string]bool{}
	together(2*len(stores), func(i int) {
		w := as(t, stores[i%len(stores)], bucket)
		for r := range each {
			content := fmt.Sprintf("%d.%d", i, r)
			staged, err := w.store.Stage(w.ctx, strings.NewReader(content), 0)
			if err == nil {
				_, err = w.View.Write(w.ctx, call, files.Write{Path: path("f")}, staged)
			}
			if err != nil {
				t.Errorf("write: %v", err)
				return
			}
			if _, err := w.Append(w.ctx, call, path("log"), []byte(content+"\n"), false); err != nil {
				t.Errorf("append: %v", err)
				return
			}
			mu.Lock()
			written[content] = true
			mu.Unlock()
		}
	})
	got := append(u.history("f"), u.read("f"))
	for _, content := range got {
		if !written[content] {
			t.Errorf("%q is kept twice, or was never written", content)
		}
		delete(written, content)
	}
	if len(written) > 0 {
		t.Errorf("not kept: %v", written)
	}
	log := u.read("log")
	for i, content := range u.history("log") {
		if !strings.HasPrefix(log, content) || strings.Count(content, "\n") != 2*len(stores)*each-1-i {
			t.Errorf("revision %d of the log is %s", i, short(content))
		}
	}
}
