package storetest

import (
	"fmt"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// layered returns two users over a stored template, and an override for the first one.
func layered(t testkit.T, factory Factory) (ana, ben user, template user) {
	store := factory(t)
	raw := func(space files.Space) user {
		return user{T: t, store: store, View: files.NewView(store, space, nil, files.Limits{}, nil), ctx: t.Context()}
	}
	template = raw(files.TemplateSpace("default", "coder"))
	for _, name := range []string{"AGENTS.md", "knowledge/a.md", "knowledge/b.md", "skills/s/SKILL.md", "skills/s/run.sh", "file-then-dir", "dir-then-file/x"} {
		template.write(name, "template "+name)
	}
	override := raw("default/template/override")
	override.write("AGENTS.md", "override AGENTS.md")
	override.write("knowledge/c.md", "override")
	shared := files.Lower{Layer: files.LayerTemplate, Tree: store.Space(template.Space())}
	other := bucket
	other.User = "ben"
	ana = as(t, store, bucket, files.Lower{Layer: files.LayerUser, Tree: store.Space(override.Space())}, shared)
	return ana, as(t, store, other, shared), template
}

func layers(t testkit.T, factory Factory) {
	ana, ben, template := layered(t, factory)
	ana.has("AGENTS.md", "override AGENTS.md")
	ben.has("AGENTS.md", "template AGENTS.md")
	ana.shows("knowledge", false, "knowledge/a.md", "knowledge/b.md", "knowledge/c.md")
	ben.shows("knowledge", false, "knowledge/a.md", "knowledge/b.md")

	ana.write("AGENTS.md", "ana's")
	e, err := ana.Stat(ana.ctx, path("AGENTS.md"))
	if err != nil || e.Layer != files.LayerBucket || !e.Shadows {
		t.Errorf("an own file over others: %+v, %v", e, err)
	}
	_, err = ana.tryWrite(files.Write{Path: path("knowledge/a.md"), Mode: files.Create}, "x")
	ana.fails(err, fsops.ReasonPathExists)
	if _, err := ana.Edit(ana.ctx, call, path("knowledge/a.md"), []fsops.Replacement{{Old: "template", New: "copied up"}}, ""); err != nil {
		t.Fatal(err)
	}
	ana.has("knowledge/a.md", "copied up knowledge/a.md")
	if _, err := ana.Append(ana.ctx, call, path("knowledge/b.md"), []byte("+"), false); err != nil {
		t.Fatal(err)
	}
	ana.has("knowledge/b.md", "template knowledge/b.md+")
	if _, err := ana.Edit(ana.ctx, call, path("skills/s/run.sh"), []fsops.Replacement{{Old: "no such text", New: ""}}, ""); err == nil {
		t.Error("the edit should fail")
	}
	if e, err := ana.Stat(ana.ctx, path("skills/s/run.sh")); err != nil || e.Layer != files.LayerTemplate {
		t.Errorf("a failed edit leaves a copy: %+v, %v", e, err)
	}
	for _, u := range []user{ben, template} {
		u.has("AGENTS.md", "template AGENTS.md")
		u.has("knowledge/a.md", "template knowledge/a.md")
	}
	for layer, want := range map[files.Layer]string{files.LayerBucket: "ana's", files.LayerUser: "override AGENTS.md", files.LayerTemplate: "template AGENTS.md"} {
		only := ana
		only.View = ana.Only(layer)
		only.has("AGENTS.md", want)
	}
	_, err = ana.tryWrite(files.Write{Path: path("AGENTS.md/x")}, "")
	ana.fails(err, fsops.ReasonNotADirectory)
	_, err = ana.tryWrite(files.Write{Path: path("skills")}, "")
	ana.fails(err, fsops.ReasonIsDirectory)
	ana.shows("", true, "AGENTS.md", "dir-then-file/", "dir-then-file/x", "file-then-dir", "knowledge/", "knowledge/a.md", "knowledge/b.md", "knowledge/c.md",
		"skills/", "skills/s/", "skills/s/SKILL.md", "skills/s/run.sh")

	if out, err := ana.Move(ana.ctx, call, files.Move{From: path("skills/s"), To: path("skills/t")}); err != nil || out.Files != 2 {
		t.Fatalf("move from a lower layer: %+v, %v", out, err)
	}
	ana.shows("skills", true, "skills/t/", "skills/t/SKILL.md", "skills/t/run.sh")
	ben.shows("skills", false, "skills/s/")
	ana.has("skills/t/run.sh", "template skills/s/run.sh")
}

func whiteouts(t testkit.T, factory Factory) {
	ana, ben, _ := layered(t, factory)
	ana.remove("skills/s/SKILL.md")
	ana.remove("skills/s/run.sh")
	ana.lacks("skills/s/SKILL.md")
	ana.lacks("skills/s")
	ana.lacks("skills")
	ben.has("skills/s/SKILL.md", "template skills/s/SKILL.md")
	// The same with another handle on the store, as after a restart.
	again := as(t, ana.store, bucket, ana.Lower()...)
	again.shows("", false, "AGENTS.md", "dir-then-file/", "file-then-dir", "knowledge/")
	again.write("skills/s/SKILL.md", "new")
	again.shows("skills", true, "skills/s/", "skills/s/SKILL.md")
	again.has("skills/s/SKILL.md", "new")
	again.remove("skills/s/SKILL.md")
	again.lacks("skills/s/SKILL.md")

	if out := ana.remove("knowledge"); out.Files != 3 {
		t.Errorf("deleted %d files of lower layers, want 3", out.Files)
	}
	ana.lacks("knowledge/c.md")
	ana.write("knowledge/own.md", "x")
	ana.shows("knowledge", true, "knowledge/own.md")
	ana.remove("file-then-dir")
	ana.write("file-then-dir/x", "1")
	ana.shows("file-then-dir", true, "file-then-dir/x")
	ana.remove("dir-then-file")
	ana.write("dir-then-file", "1")
	ana.has("dir-then-file", "1")
	_, err := ana.tryRead("dir-then-file/x")
	ana.fails(err, fsops.ReasonNotADirectory)
	ana.shows("", true, "AGENTS.md", "dir-then-file", "file-then-dir/", "file-then-dir/x", "knowledge/", "knowledge/own.md")
	if got := fmt.Sprint(grepLines(ana, "template")); got != "[]" {
		t.Errorf("a search finds hidden files: %s", got)
	}
	if page, err := ana.Glob(ana.ctx, globOf(t, "**/*.md"), 10, ""); err != nil || len(page.Entries) != 2 {
		t.Errorf("a glob finds hidden files: %+v, %v", page, err)
	}
	ben.has("knowledge/a.md", "template knowledge/a.md")
}

// Buckets that differ in anything, however alike, share nothing.
func isolation(t testkit.T, factory Factory) {
	store := factory(t)
	var buckets []identity.Bucket
	for _, id := range []string{"ana", "Ana", "ana ", "a/b", "a", "..", ".", "../ana", "a:b", "a-b", "アナ", "cid9+/Q==", "anaa", "%61na", "~", "con"} {
		buckets = append(buckets,
			identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: id},
			identity.Bucket{Tenant: "default", Scope: identity.ScopeSession, Agent: "coder", User: id, Session: "s"},
			identity.Bucket{Tenant: "default", Scope: identity.ScopeSession, Agent: "coder", Session: id},
			identity.Bucket{Tenant: "default", Scope: identity.ScopeAgent, Agent: id},
			identity.Bucket{Tenant: id, Scope: identity.ScopeGlobal},
			identity.Bucket{Tenant: id, Scope: identity.ScopeUser, Agent: "coder", User: "ana"},
		)
	}
	buckets = append(buckets,
		identity.Bucket{Tenant: "t", Scope: identity.ScopeSession, Agent: "a/b", User: "c", Session: "s"},
		identity.Bucket{Tenant: "t", Scope: identity.ScopeSession, Agent: "a", User: "b/c", Session: "s"})
	for i, b := range buckets {
		u := as(t, store, b)
		u.shows("", true)
		u.write("secret.txt", fmt.Sprintf("tok-%d", i))
		u.write("d/x", fmt.Sprintf("tok-%d", i))
	}
	for i, b := range buckets {
		u := as(t, store, b)
		u.has("secret.txt", fmt.Sprintf("tok-%d", i))
		u.shows("", true, "d/", "d/x", "secret.txt")
		if got := fmt.Sprint(grepLines(u, "tok-")); got != fmt.Sprintf("[d/x:1:tok-%d secret.txt:1:tok-%d]", i, i) {
			t.Errorf("bucket %d (%s) finds %s", i, b, got)
		}
		used, _, err := u.Usage(u.ctx)
		if err != nil || used.Files != 2 {
			t.Errorf("bucket %d holds %+v, %v", i, used, err)
		}
		head, err := u.Head(u.ctx)
		if err != nil || head.Seq != 2 {
			t.Errorf("bucket %d has the cursor %v, %v", i, head, err)
		}
	}
	as(t, store, buckets[0]).remove("d")
	if _, err := store.Forget(t.Context(), files.BucketSpace(buckets[0])); err != nil {
		t.Fatal(err)
	}
	for i, b := range buckets[1:] {
		as(t, store, b).has("d/x", fmt.Sprintf("tok-%d", i+1))
	}
}

func forget(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	old := u.write("a", "1")
	once := files.Call{Effect: files.Effect{ID: "e", Hash: "h"}}
	if _, err := u.Append(u.ctx, once, path("b"), []byte("x"), false); err != nil {
		t.Fatal(err)
	}
	if n, err := u.store.Forget(u.ctx, u.Space()); err != nil || n != 2 {
		t.Errorf("forgot %d files, %v", n, err)
	}
	u.shows("", true)
	if n, err := u.store.Forget(u.ctx, u.Space()); err != nil || n != 0 {
		t.Errorf("forgot %d files of an empty space, %v", n, err)
	}
	if _, err := u.Append(u.ctx, once, path("b"), []byte("x"), false); err != nil {
		t.Errorf("a forgotten effect: %v", err)
	}
	u.has("b", "x")
	if again := u.write("a", "1"); again.Entry.Revision == old.Entry.Revision {
		t.Error("a revision was used again after the space was forgotten")
	}
	after, err := files.ParseCursor(old.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.store.Changes(u.ctx, u.Space(), after, 10)
	u.fails(err, fsops.ReasonCursorExpired)
}

func spaces(t testkit.T, factory Factory) {
	store := factory(t)
	for _, agent := range []string{"b", "a", "C/d"} {
		u := user{T: t, store: store, ctx: t.Context(), View: files.NewView(store, files.TemplateSpace("default", agent), nil, files.Limits{}, nil)}
		u.write("AGENTS.md", agent)
	}
	fresh := as(t, store, bucket)
	fresh.write("x", "")
	prefix := files.TemplatePrefix("default")
	got, err := store.Spaces(t.Context(), prefix, "", 10)
	want := []files.Space{files.TemplateSpace("default", "C/d"), files.TemplateSpace("default", "a"), files.TemplateSpace("default", "b")}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("spaces %q, %v, want %q", got, err, want)
	}
	got, err = store.Spaces(t.Context(), prefix, want[0], 1)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want[1:2]) {
		t.Errorf("the next space is %q, %v", got, err)
	}
}
