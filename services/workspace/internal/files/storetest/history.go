package storetest

import (
	"fmt"
	"strings"
	"sync"
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
