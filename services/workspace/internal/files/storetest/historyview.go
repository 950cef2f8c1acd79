package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// historyIsolation has spaces and paths whose names look alike: each has its own history.
func historyIsolation(t testkit.T, places Places) {
	store := places(t)(all, time.Now)
	names := []string{"a", "a%", "a_", "a*", "a?", "A", "ab", "a.b", "a:b", "ä", "a⁄b"}
	var users []user
	for _, id := range []string{"a", "a/../b", "a:b", "b", "a%", "A", "ä", "*"} {
		users = append(users, as(t, store, identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: id}))
	}
	users = append(users, as(t, store, identity.Bucket{Tenant: "default", Scope: identity.ScopeAgent, Agent: "coder"}))
	for i, u := range users {
		for _, name := range names {
			u.write(name, fmt.Sprintf("%d %s old", i, name))
		}
	}
	for i, u := range users {
		for _, name := range names {
			u.write(name, fmt.Sprintf("%d %s new", i, name))
			if i%2 == 0 {
				u.remove(name)
			}
		}
	}
	own := func(u user) files.Own { return store.Space(u.Space()) }
	for i, u := range users {
		for _, name := range names {
			want := []string{fmt.Sprintf("%d %s old", i, name)}
			if i%2 == 0 {
				want = append([]string{fmt.Sprintf("%d %s new", i, name)}, want...)
			}
			u.had(name, want...)
		}
		for j, other := range users {
			if i == j {
				continue
			}
			foreign := other.past("a")[0].Revision
			if n, err := own(u).Revision(u.ctx, path("a"), foreign); err != nil || n.Exists() {
				t.Errorf("a revision of %s is found in %s: %+v, %v", other.Space(), u.Space(), n, err)
			}
			_, err := u.Restore(u.ctx, call, path("a"), foreign, "")
			u.fails(err, fsops.ReasonRevisionNotKept)
		}
		if n, err := own(u).Revision(u.ctx, path("ab"), u.past("a")[0].Revision); err != nil || n.Exists() {
			t.Errorf("a revision of one path is found at another: %+v, %v", n, err)
		}
	}
}

func historyForget(t testkit.T, places Places) {
	store := places(t)(all, time.Now)
	u := as(t, store, bucket)
	other := as(t, store, identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: "ana2"})
	for _, u := range []user{u, other} {
		u.write("f", "1")
		u.write("f", "2")
		u.write("gone", "3")
		u.remove("gone")
	}
	kept := u.past("f")[0]
	if _, err := store.Forget(u.ctx, u.Space()); err != nil {
		t.Fatal(err)
	}
	u.had("f")
	u.had("gone")
	if n, err := store.Space(u.Space()).Revision(u.ctx, path("f"), kept.Revision); err != nil || n.Exists() {
		t.Errorf("a revision of a forgotten space: %+v, %v", n, err)
	}
	other.had("f", "1")
	other.had("gone", "3")
	u.write("f", "anew")
	u.had("f")
}

func restores(t testkit.T, places Places) {
	u := kept(t, places, all)
	first, err := u.tryWrite(files.Write{Path: path("d/f"), FileMode: 0o755}, "1")
	if err != nil {
		t.Fatal(err)
	}
	second := u.write("d/f", "2")
	_, err = u.Restore(u.ctx, call, path("d/f"), first.Entry.Revision, "other")
	u.fails(err, fsops.ReasonRevisionConflict)
	_, err = u.Restore(u.ctx, call, path("d/f"), "none", "")
	u.fails(err, fsops.ReasonRevisionNotKept)
	_, err = u.Restore(u.ctx, call, path("d"), first.Entry.Revision, "")
	u.fails(err, fsops.ReasonIsDirectory)
	out, err := u.Restore(u.ctx, files.Call{Author: "eve"}, path("d/f"), first.Entry.Revision, second.Entry.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if e := out.Entry; e.Revision == first.Entry.Revision || e.Author != "eve" || e.SHA256 != first.Entry.SHA256 || e.Mode != 0o755 || out.Cursor == "" {
		t.Errorf("restored: %+v", out)
	}
	u.has("d/f", "1")
	u.had("d/f", "2", "1")

	u.remove("d")
	out, err = u.Restore(u.ctx, call, path("d/f"), second.Entry.Revision, "")
	if err != nil {
		t.Fatal(err)
	}
	u.has("d/f", "2")
	u.remove("d")
	u.write("d", "a file")
	_, err = u.Restore(u.ctx, call, path("d/f"), second.Entry.Revision, "")
	u.fails(err, fsops.ReasonNotADirectory)

	small := user{T: t, store: u.store, ctx: u.ctx, View: files.NewView(u.store, u.Space(), nil, files.Limits{Bytes: 10}, time.Now)}
	u.write("big", strings.Repeat("x", 20))
	u.write("big", "1")
	_, err = small.Restore(u.ctx, call, path("big"), u.past("big")[0].Revision, "")
	small.fails(err, fsops.ReasonQuotaExceeded)
	u.has("big", "1")
	effect := files.Call{Author: "ana", Effect: files.Effect{ID: "restore", Hash: "h"}}
	once, err := u.Restore(u.ctx, effect, path("big"), u.past("big")[0].Revision, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := u.Restore(u.ctx, effect, path("big"), u.past("big")[0].Revision, "")
	if err != nil || again.Entry.Revision != once.Entry.Revision || again.Cursor != once.Cursor {
		t.Errorf("a restore once more under its effect: %+v, want %+v, %v", again, once, err)
	}
}

func compares(t testkit.T, places Places) {
	u := kept(t, places, all)
	first := u.write("f", "a\nb\nc\n")
	second := u.write("f", "a\nB\nc\n")
	third := u.write("f", "a\nB\nc\nd\n")
	u.write("binary", "x\x00")
	u.write("binary", "y\x00")
	u.write("alone", "x")
	diff := func(name, from, to string, want files.Diff) {
		t.Helper()
		if got, err := u.Diff(u.ctx, path(name), from, to, 1, 1<<20); err != nil || got != want {
			t.Errorf("diff of %s: %+v, want %+v, %v", name, got, want, err)
		}
	}
	const head = "--- a/f\n+++ b/f\n"
	last := files.Diff{Text: head + "@@ -3,1 +3,2 @@\n c\n+d\n"}
	diff("f", second.Entry.Revision, third.Entry.Revision, last)
	diff("f", second.Entry.Revision, "", last)
	diff("f", "", "", last)
	diff("f", "", second.Entry.Revision, files.Diff{Text: head + "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"})
	diff("f", first.Entry.Revision, first.Entry.Revision, files.Diff{Equal: true})
	diff("binary", "", "", files.Diff{Text: "Binary files a/binary and b/binary differ\n"})
	_, err := u.Diff(u.ctx, path("f"), "none", "", 0, 1<<20)
	u.fails(err, fsops.ReasonRevisionNotKept)
	_, err = u.Diff(u.ctx, path("alone"), "", "", 0, 1<<20)
	u.fails(err, fsops.ReasonRevisionNotKept)
	_, err = u.Diff(u.ctx, path("none"), "", "", 0, 1<<20)
	u.fails(err, fsops.ReasonPathNotFound)
	if got, err := u.Diff(u.ctx, path("f"), first.Entry.Revision, "", 0, 30); err != nil || !got.Truncated || len(got.Text) > 30 {
		t.Errorf("a diff that is cut: %+v, %v", got, err)
	}
}

// versions returns the whole history of a path as text.
func (u user) versions(name string, size int) string {
	u.Helper()
	var out []string
	for token := ""; ; {
		page, err := u.Versions(u.ctx, path(name), size, token)
		if err != nil {
			u.Fatalf("the versions of %q: %v", name, err)
		}
		if len(page.Versions) > size {
			u.Errorf("a page of %d has %d versions", size, len(page.Versions))
		}
		for _, v := range page.Versions {
			if v.Time.IsZero() {
				u.Errorf("a version of %q has no time: %+v", name, v)
			}
			if v.Deleted {
				out = append(out, "deleted")
				continue
			}
			_, data, err := u.readRevision(name, v.Entry.Revision)
			if err != nil {
				u.Errorf("read version %s of %q: %v", v.Entry.Revision, name, err)
			}
			out = append(out, fmt.Sprintf("%s@%d", data, v.Entry.Layer))
		}
		if token = page.Next; token == "" {
			return strings.Join(out, " ")
		}
	}
}

func versionsOfLayers(t testkit.T, places Places) {
	store := places(t)(all, time.Now)
	template := as(t, store, identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: "the template"})
	template.write("AGENTS.md", "old rules")
	template.write("AGENTS.md", "rules")
	template.write("knowledge/a", "lower")
	u := as(t, store, bucket, files.Lower{Layer: files.LayerTemplate, Tree: store.Space(template.Space())})
	check := func(name, want string) {
		t.Helper()
		if got := u.versions(name, 10); got != want {
			t.Errorf("versions of %s: %s, want %s", name, got, want)
		}
	}
	const own, lower = files.LayerBucket, files.LayerTemplate
	check("AGENTS.md", fmt.Sprintf("rules@%d", lower))
	u.write("AGENTS.md", "my rules")
	check("AGENTS.md", fmt.Sprintf("my rules@%d", own))
	u.write("AGENTS.md", "my last rules")
	check("AGENTS.md", fmt.Sprintf("my last rules@%d my rules@%d", own, own))
	u.remove("AGENTS.md")
	u.lacks("AGENTS.md")
	check("AGENTS.md", fmt.Sprintf("deleted my last rules@%d my rules@%d", own, own))
	if _, err := u.Restore(u.ctx, call, path("AGENTS.md"), u.past("AGENTS.md")[1].Revision, ""); err != nil {
		t.Fatal(err)
	}
	u.has("AGENTS.md", "my rules")
	check("AGENTS.md", fmt.Sprintf("my rules@%d deleted my last rules@%d my rules@%d", own, own, own))
	u.remove("AGENTS.md")
	u.lacks("AGENTS.md") // the whiteout still hides the template's

	u.remove("knowledge")
	_, err := u.Versions(u.ctx, path("knowledge/a"), 10, "")
	u.fails(err, fsops.ReasonPathNotFound)
	e, err := template.Stat(u.ctx, path("knowledge/a"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Restore(u.ctx, call, path("knowledge/a"), e.Revision, "")
	u.fails(err, fsops.ReasonRevisionNotKept)
	_, err = u.Versions(u.ctx, path("none"), 10, "")
	u.fails(err, fsops.ReasonPathNotFound)
}

func pagesOfVersions(t testkit.T, places Places) {
	u := kept(t, places, all)
	u.write("f", "1")
	u.write("f", "2")
	u.remove("f")
	u.write("f", "3")
	u.remove("f")
	u.write("f", "4")
	const want = "4@1 deleted 3@1 deleted 2@1 1@1"
	for size := 1; size < 8; size++ {
		if got := u.versions("f", size); got != want {
			t.Errorf("versions in pages of %d: %s, want %s", size, got, want)
		}
	}
	u.remove("f")
	if got := u.versions("f", 1); got != "deleted 4@1 "+want[4:] {
		t.Errorf("versions of a deleted file: %s", got)
	}
	page, err := u.Versions(u.ctx, path("f"), 2, "")
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	_, err = u.Versions(u.ctx, path("g"), 2, page.Next)
	u.fails(err, fsops.ReasonTokenInvalid)
	_, err = u.Versions(u.ctx, path("f"), 2, "?")
	u.fails(err, fsops.ReasonTokenInvalid)
}
