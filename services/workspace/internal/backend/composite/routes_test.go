package composite_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func path(text string) fsops.Path { return fsops.PathOf(text) }

// plain is the view of one of the stores alone.
func plain(s files.Store, space files.Space) *files.View {
	return files.NewView(s, space, nil, files.Limits{}, time.Now)
}

// The longest prefix says where a path is kept, by whole names, and each store keeps nothing else.
func TestLongestPrefix(t *testing.T) {
	b := newBench(t, "a", "second", "a/b", "first", "a/b/c", "second", "f.txt", "second", "/x//y/./z/", "second", "보고서", "second")
	v := plain(b.alive, user("ana"))
	where := map[string]string{
		"a/1": "second", "a/b/1": "first", "a/b/c/1": "second", "a/b/cc": "first", "a/bb": "second", "ab": "first", "f.txt": "second", "f.txt2": "first", "x/y/z/1": "second",
		"x/y/1": "first", "보고서/1": "second", "A/1": "first",
	}
	content := map[string]string{}
	for name := range where {
		content[name] = "in " + name
	}
	b.write(v, content)
	for i, name := range []string{"first", "second"} {
		want := map[string]string{}
		for p, s := range where {
			if s == name {
				want[p] = "in " + p
			}
		}
		if diff := cmp.Diff(want, b.holds(plain(b.inner[i], user("ana")))); diff != "" {
			t.Errorf("the store %s (-want +got):\n%s", name, diff)
		}
	}
	if got := b.holds(v); !maps.Equal(got, content) {
		t.Errorf("together: %q", got)
	}
	for p, want := range where {
		if got := b.alive.Owner(user("ana"), path(p)); got != want {
			t.Errorf("%s is owned by %s, want %s", p, got, want)
		}
	}
}

// Prefixes are paths like any other: what is none, the root, reserved or routed twice is refused, and so is a store that nobody knows.
func TestRoutesRefused(t *testing.T) {
	first, second := openSQLite(t), openSQLite(t)
	t.Cleanup(func() { first.Close(); second.Close() })
	for name, pairs := range map[string][]string{
		"root": {"/", "second"}, "empty": {"", "second"}, "root in disguise": {"a/..", "second"}, "above": {"../a", "second"}, "NUL": {"a\x00b", "second"},
		"reserved": {".gantry-runtime", "second"}, "below reserved": {".Gantry-Runtime/x", "second"}, "long": {strings.Repeat("n", 256), "second"}, "not UTF-8": {"a\xff", "second"},
		"twice": {"a/b", "second", "/a//b/", "first"}, "twice in two normal forms": {"é", "second", "e\u0301", "first"}, "unknown store": {"a", "third"},
	} {
		if s, err := composite.New(composite.Config{Default: named("first", first), Others: []composite.Named{named("second", second)}, Routes: routes(pairs...)}); err == nil {
			t.Errorf("%s: taken as %+v", name, s)
		}
	}
	var many []string
	for i := range composite.MaxRoutes + 1 {
		many = append(many, fmt.Sprint("r", i), "second")
	}
	if _, err := composite.New(composite.Config{Default: named("first", first), Others: []composite.Named{named("second", second)}, Routes: routes(many...)}); err == nil {
		t.Error("too many routes are taken")
	}
	if _, err := composite.New(composite.Config{Default: named("first", first), Others: []composite.Named{named("first", second)}}); err == nil {
		t.Error("two stores of one name are taken")
	}
	if _, err := composite.New(composite.Config{Default: named("p", sharedStore{first}), Others: []composite.Named{named("second", second)}, Routes: routes("a", "second")}); err == nil {
		t.Error("a route from a shared store to one that is not is taken")
	}
}

type sharedStore struct{ files.Store }

func (sharedStore) Capabilities() files.Capabilities { return files.Capabilities{Shared: true} }

// What a store holds of places that are routed elsewhere is not seen, at any depth, and does not make a directory.
func TestRemaindersAreHidden(t *testing.T) {
	b := newBench(t, "a/b", "second", "a/b/c", "first", "z", "second")
	space := user("ana")
	var hidden = map[string]string{"a/b/old": "1", "z/old": "2", "a/b/d/old": "3"}
	for i := range 100 {
		hidden[fmt.Sprintf("a/b/d/%03d", i)] = "many"
	}
	b.writeTo(b.inner[0], plain(b.inner[0], space), hidden)
	b.writeTo(b.inner[1], plain(b.inner[1], space), map[string]string{"a/x": "4", "a/b/c/old": "5", "top": "6"})
	v := plain(b.alive, space)
	if got := b.holds(v); len(got) != 0 {
		t.Errorf("seen: %q", got)
	}
	for _, p := range []string{"a", "a/b", "a/b/c", "a/b/old", "z", "top", "a/x"} {
		if _, err := v.Stat(t.Context(), path(p)); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
			t.Errorf("%s: %v", p, err)
		}
	}
	page, err := v.List(t.Context(), fsops.Path{}, false, 10, "")
	if err != nil || len(page.Entries) != 0 {
		t.Errorf("the root lists %v, %v", page.Entries, err)
	}
	b.write(v, map[string]string{"a/b/c/new": "7", "a/b/e": "8"})
	if diff := cmp.Diff(map[string]string{"a/b/c/new": "7", "a/b/e": "8"}, b.holds(v)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Pages of one entry: nothing twice, nothing left out.
	var names []string
	for after := ""; ; {
		page, err := b.alive.Space(space).Below(t.Context(), fsops.Path{}, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Nodes {
			names, after = append(names, n.Path.String()), n.Path.Key()
		}
		if !page.More {
			break
		}
	}
	if got := strings.Join(names, " "); got != "a a/b a/b/c a/b/c/new a/b/e" {
		t.Errorf("page by page: %s", got)
	}
}

// A store that fails makes every call fail that needs it, and none that does not.
func TestFailingRoute(t *testing.T) {
	b := newBench(t, "r", "second")
	space := user("ana")
	b.write(plain(b.alive, space), map[string]string{"r/x": "needle", "y": "needle"})
	out := &outage{}
	cfg := b.cfg
	cfg.Others = []composite.Named{named("second", mortal{b.inner[1], out})}
	s, err := composite.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	v := plain(s, space)
	search, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: "needle"})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"list": func() error { _, err := v.List(t.Context(), fsops.Path{}, false, 10, ""); return err },
		"stat": func() error { _, err := v.Stat(t.Context(), path("r/x")); return err },
		"read": func() error { _, _, err := v.ReadAll(t.Context(), path("r/x"), 100); return err },
		"grep": func() error {
			_, err := v.Grep(t.Context(), files.Grep{Search: search, MaxMatches: 10, MaxPerFile: 10, MaxTime: time.Minute}, func(files.Hit) error { return nil })
			return err
		},
		"append": func() error {
			_, err := v.Append(t.Context(), files.Call{}, path("r/x"), []byte("x"), false)
			return err
		},
	} {
		if err := f(); errdefs.ClassOf(err) != errdefs.ErrUnavailable {
			t.Errorf("%s: %v, want the error of the store", name, err)
		}
	}
	if _, data, err := v.ReadAll(t.Context(), path("y"), 100); err != nil || string(data) != "needle" {
		t.Errorf("a file of the other store: %q, %v", data, err)
	}
}

// A set of changes over two stores is refused, with the prefixes, and changes nothing.
func TestSetAcross(t *testing.T) {
	b := newBench(t, "r", "second")
	v := plain(b.alive, user("ana"))
	b.write(v, map[string]string{"a": "1", "r/a": "2"})
	before := b.holds(v)
	for name, set := range map[string][]files.FileChange{
		"two writes": {
			{Write: &files.Write{Path: path("b")}, Content: []byte("3")}, {Write: &files.Write{Path: path("r/b")}, Content: []byte("4")},
		},
		"a move": {{Move: &files.Move{From: path("a"), To: path("r/b")}}},
	} {
		_, err := v.Apply(t.Context(), files.Call{}, set)
		known, ok := errors.AsType[*errdefs.Error](err)
		if errdefs.ClassOf(err) != errdefs.ErrFailedPrecondition || !ok || known.Meta["first"]+known.Meta["second"] != "r" {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, b.holds(v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := v.Apply(t.Context(), files.Call{}, []files.FileChange{{Move: &files.Move{From: path("r/a"), To: path("r/b")}}}); err != nil {
		t.Errorf("a set within one store: %v", err)
	}
}

// Quotas hold for the sum of what the stores hold.
func TestQuotaOfTheSum(t *testing.T) {
	b := newBench(t, "r", "second")
	space := user("ana")
	v := files.NewView(b.alive, space, nil, files.Limits{Bytes: 10, Files: 3}, time.Now)
	b.write(v, map[string]string{"r/a": "12345", "b": "1234"})
	for _, p := range []string{"r/c", "c"} {
		if _, err := v.Append(t.Context(), files.Call{}, path(p), []byte("67"), false); errdefs.ReasonOf(err) != fsops.ReasonQuotaExceeded {
			t.Errorf("append to %s: %v", p, err)
		}
	}
	if _, err := v.Move(t.Context(), files.Call{}, files.Move{From: path("r/a"), To: path("a")}); err != nil {
		t.Errorf("a move needs no room of its own: %v", err)
	}
	used, err := b.alive.Usage(t.Context(), space)
	if err != nil || used.Bytes != 9 || used.Files != 2 {
		t.Errorf("usage %+v, %v", used, err)
	}
	if n, err := b.alive.Forget(t.Context(), space); err != nil || n != 2 {
		t.Errorf("forgot %d, %v", n, err)
	}
	if used, err := b.alive.Usage(t.Context(), space); err != nil || used != (files.Usage{}) {
		t.Errorf("after forgetting: %+v, %v", used, err)
	}
}

// Spaces that differ in anything share nothing, in any store.
func TestSpacesApart(t *testing.T) {
	b := newBench(t, "r", "second", "%", "second", "_", "second", "a:b", "second", "*", "second")
	names := []string{"ana", "Ana", "a/../b", "b", "a:b", "an", "anaa", "%", "_", "*", "ана", "r"}
	for _, name := range names {
		b.write(plain(b.alive, user(name)), map[string]string{"r/x": name, "x": name, "%": name, "_": name, "a:b/x": name, "*": name, "a": name})
	}
	for _, name := range names {
		for p, content := range b.holds(plain(b.alive, user(name))) {
			if content != name {
				t.Errorf("%s of %q holds the content of %q", p, name, content)
			}
		}
		if used, err := b.alive.Usage(t.Context(), user(name)); err != nil || used.Files != 7 {
			t.Errorf("%q holds %+v, %v", name, used, err)
		}
	}
	got, err := b.alive.Spaces(t.Context(), "t/", "", 100)
	if err != nil || len(got) != len(names) {
		t.Errorf("spaces %q, %v", got, err)
	}
	if some, err := b.alive.Spaces(t.Context(), "t/", got[2], 3); err != nil || !cmp.Equal(some, got[3:6]) {
		t.Errorf("three more spaces: %q, %v", some, err)
	}
}
