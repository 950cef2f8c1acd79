package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func writes(name, content string) files.FileChange {
	return files.FileChange{Write: &files.Write{Path: path(name)}, Content: []byte(content)}
}

func edited(name, from, to string) files.FileChange {
	return files.FileChange{Edit: &files.EditFile{Path: path(name), Edits: []fsops.Replacement{{Old: from, New: to}}}}
}

func removes(name string) files.FileChange {
	return files.FileChange{Delete: &files.Delete{Path: path(name), Recursive: true}}
}

func renames(from, to string) files.FileChange {
	return files.FileChange{Move: &files.Move{From: path(from), To: path(to), Overwrite: true}}
}

// changeSets has sets whose changes build on those before them.
func changeSets(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	apply := func(changes ...files.FileChange) files.Applied {
		t.Helper()
		out, err := u.Apply(u.ctx, call, changes)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := apply(writes("a", "1"), edited("a", "1", "12"), edited("a", "2", "3"), renames("a", "b"), writes("a", "new"), writes("d/x", "x"), renames("d", "e"))
	var paths []string
	for _, e := range out.Entries {
		paths = append(paths, e.Path.String())
	}
	if got := strings.Join(paths, " "); got != "a a a b a d/x e" || out.Cursor == "" {
		t.Errorf("the entries of a set: %s, cursor %q", got, out.Cursor)
	}
	u.shows("", true, "a", "b", "e/", "e/x")
	u.has("b", "13")
	u.has("a", "new")
	apply(renames("a", "t"), renames("b", "a"), renames("t", "b")) // a swap
	u.has("a", "13")
	u.has("b", "new")
	apply(removes("e"), writes("e", "a file"), removes("a"), writes("a/x", "below"))
	u.has("e", "a file")
	u.has("a/x", "below")
	apply(removes("a"), writes("a", "a file again"), edited("b", "new", "newer"), renames("b", "c"), edited("c", "newer", "newest"), writes("z", ""), removes("z"))
	u.shows("", true, "a", "c", "e")
	u.has("a", "a file again")
	u.has("c", "newest")
	for name, e := range map[string]string{"a": "a file again", "c": "newest"} {
		s, err := u.Stat(u.ctx, path(name))
		if err != nil || s.Size != int64(len(e)) || s.SHA256 != sum(e) || s.Author != "ana" {
			t.Errorf("%s after a set: %+v, %v", name, s, err)
		}
	}
	if used, _, err := u.Usage(u.ctx); err != nil || used.Files != 3 || used.Bytes != int64(len("a file again")+len("newest")+len("a file")) {
		t.Errorf("usage after sets: %+v, %v", used, err)
	}
}

// A set that fails changes nothing, and says which change it was.
func failedChangeSets(t testkit.T, factory Factory) {
	store := factory(t)
	u := as(t, store, bucket)
	u.write("a", "a")
	u.write("d/x", "x")
	u.write("d/y", "y")
	before, err := u.Head(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	fails := func(u user, reason string, changes ...files.FileChange) {
		t.Helper()
		_, err := u.Apply(u.ctx, call, changes)
		u.fails(err, reason)
		typed, ok := errors.AsType[*errdefs.Error](err)
		if !ok || typed.Meta["change"] != fmt.Sprint(len(changes)-1) {
			t.Errorf("%s: the change that failed is not said: %v", reason, err)
		}
		u.has("a", "a")
		u.shows("", true, "a", "d/", "d/x", "d/y")
		if now, err := u.Head(u.ctx); err != nil || now != before {
			t.Errorf("%s: a set that failed moved the log from %v to %v, %v", reason, before, now, err)
		}
	}
	fails(u, fsops.ReasonEditNoMatch, writes("a", "1"), writes("q", "2"), removes("d"), edited("a", "none", "x"))
	fails(u, fsops.ReasonPathNotFound, removes("a"), edited("a", "a", "b"))
	fails(u, fsops.ReasonPathNotFound, renames("a", "b"), renames("a", "c"))
	fails(u, fsops.ReasonNotADirectory, removes("d"), writes("d", "x"), writes("d/x", "y"))
	fails(u, fsops.ReasonIsDirectory, writes("q/x", "1"), writes("q", "2"))

	small := u
	small.View = files.NewView(store, u.Space(), nil, files.Limits{Bytes: 10, Files: 5, FileBytes: 6}, time.Now)
	fails(small, fsops.ReasonQuotaExceeded, writes("n1", "12345"), removes("n1"), writes("n2", "123456"), writes("n3", "12"))
	fails(small, fsops.ReasonTooLarge, writes("n1", "1"), writes("n2", "1234567"))
	fails(small, fsops.ReasonQuotaExceeded, writes("n1", "1"), writes("n2", "1"), writes("n3", "1"))
	if _, err := small.Apply(u.ctx, call, []files.FileChange{removes("d"), writes("n1", "12345"), writes("n2", "1234")}); err != nil {
		t.Errorf("a set within its quotas: %v", err)
	}
}

// The log has the changes of a set in their order, and an effect covers the set.
func changeSetLog(t testkit.T, factory Factory) {
	u := fresh(t, factory)
	u.write("a", "a")
	head, err := u.Head(u.ctx)
	if err != nil {
		t.Fatal(err)
	}
	set := []files.FileChange{writes("b", "b"), edited("a", "a", "A"), renames("b", "c"), removes("a")}
	effect := files.Call{Author: "ana", Effect: files.Effect{ID: "set", Hash: "h"}}
	once, err := u.Apply(u.ctx, effect, set)
	if err != nil {
		t.Fatal(err)
	}
	changes, err := u.store.Changes(u.ctx, u.Space(), head, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%d %s", c.Kind, c.Path.String()))
	}
	if fmt.Sprint(got) != "[1 b 1 a 3 c 2 a]" || changes[len(changes)-1].Cursor.String() != once.Cursor {
		t.Errorf("the log of a set: %q up to %s", got, once.Cursor)
	}
	again, err := u.Apply(u.ctx, effect, set)
	if err != nil || again.Cursor != once.Cursor || len(again.Entries) != 3 || again.Entries[0].Revision != once.Entries[0].Revision {
		t.Errorf("a set once more under its effect: %+v, want %+v, %v", again, once, err)
	}
	effect.Effect.Hash = "other"
	_, err = u.Apply(u.ctx, effect, set[:1])
	u.fails(err, fsops.ReasonEffectMismatch)
	u.shows("", true, "c")
}

// A set over layers copies up, and hides what it deletes.
func changeSetLayers(t testkit.T, factory Factory) {
	store := factory(t)
	template := as(t, store, identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: "the template"})
	template.write("a", "lower a")
	template.write("d/x", "lower x")
	template.write("d/y", "lower y")
	u := as(t, store, bucket, files.Lower{Layer: files.LayerTemplate, Tree: store.Space(template.Space())})
	if _, err := u.Apply(u.ctx, call, []files.FileChange{edited("a", "lower", "my"), renames("d", "e"), removes("e/y"), edited("e/x", "lower", "my")}); err != nil {
		t.Fatal(err)
	}
	u.shows("", true, "a", "e/", "e/x")
	u.has("a", "my a")
	u.has("e/x", "my x")
	if _, err := u.Apply(u.ctx, call, []files.FileChange{removes("a"), writes("d/y", "mine"), removes("e")}); err != nil {
		t.Fatal(err)
	}
	u.shows("", true, "d/", "d/y")
	template.has("d/y", "lower y")
	template.has("a", "lower a")
}

// largeTrees moves and deletes a directory of 2,000 files: each is one change, and at no time is half of it seen.
func largeTrees(t testkit.T, factory Factory) {
	const count = 2000
	u := fresh(t, factory)
	_, err := u.store.Update(u.ctx, u.Space(), files.Effect{}, manyFiles(u, "from", count))
	if err != nil {
		t.Fatal(err)
	}
	moved, err := u.Move(u.ctx, call, files.Move{From: path("from"), To: path("to/there")})
	if err != nil || moved.Files != count {
		t.Fatalf("move: %+v, %v", moved, err)
	}
	u.lacks("from")
	u.has("to/there/7/1007", "1007")
	if used, _, err := u.Usage(u.ctx); err != nil || used.Files != count {
		t.Errorf("usage after a move: %+v, %v", used, err)
	}
	small := u
	small.View = files.NewView(u.store, u.Space(), nil, files.Limits{Files: count - 1}, time.Now)
	_, err = small.Move(u.ctx, call, files.Move{From: path("to"), To: path("elsewhere")})
	u.fails(err, fsops.ReasonQuotaExceeded)
	u.lacks("elsewhere")
	u.has("to/there/0/0", "0")
	gone := u.remove("to")
	if gone.Files != count {
		t.Errorf("deleted: %+v", gone)
	}
	u.shows("", true)
}

// manyFiles puts files into ten directories.
func manyFiles(u user, dir string, count int) func(context.Context, files.Tx) ([]byte, error) {
	return func(ctx context.Context, tx files.Tx) ([]byte, error) {
		for i := range count {
			staged, err := u.store.Stage(ctx, strings.NewReader(fmt.Sprint(i)), 0)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Put(ctx, files.File{Path: path(fmt.Sprintf("%s/%d/%d", dir, i%10, i)), Content: staged, Mode: 0o644}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}
