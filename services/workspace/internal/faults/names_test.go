package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// TestPathsThatAreRefused never reach a store.
func TestPathsThatAreRefused(t *testing.T) {
	for _, path := range []string{
		"..", "../x", "a/../../x", "/..", "/../etc/passwd", "a/./../../b", "a\x00b", "\x00", strings.Repeat("a", 256), strings.Repeat("a/", 2100),
		".gantry-runtime", ".gantry-runtime/files.db", "a/../.gantry-runtime/x", "./.gantry-runtime", ".GANTRY-RUNTIME/files.db",
	} {
		if p, err := fsops.ParsePath(path); errdefs.ReasonOf(err) != fsops.ReasonPathInvalid {
			t.Errorf("%.40q became %q: %v", path, p, err)
		}
	}
}

// oddNames are legal and unusual. A store keeps them to the byte or says that it can't.
var oddNames = []string{
	"a\nb", "\x01\x1b[31m", "\xff\xfe", "a\xc3", "con", "CON", "nul.txt", "aux", "a:b", "a|b", "a*?", "<>", `a\..\b`, `\\server\share`, "C:", "..a", "...", ". .", "a.", "a ", " a", "~", "-rf",
	"$(x)`y`", "%00", "%2e%2e", "=2e", "A", "a", "Ä", "ß", "\u202egnp", "\u200b", "🐟", strings.Repeat("ü", 127), strings.Repeat("x", 255), "_", "%", "[x]", "{a,b}", "'; DROP TABLE nodes;--",
	".hidden", ".git", "dir/..b/.c", "x/" + strings.Repeat("y/", 100) + "z",
}

func TestOddNames(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		view := viewOf(store, ana)
		kept := map[string]bool{}
		for _, name := range oddNames {
			if _, err := fsops.ParsePath(name); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			err := write(t.Context(), store, ana, "odd/"+name, []byte("content of "+name))
			if err != nil {
				if errdefs.ReasonOf(err) != fsops.ReasonNameUnsupported {
					t.Errorf("write %q: %v", name, err)
				}
				continue
			}
			kept["odd/"+name] = true
		}
		if len(kept) < len(oddNames)*3/4 {
			t.Errorf("only %d of %d names are kept", len(kept), len(oddNames))
		}
		for name := range kept {
			mustHold(t, store, ana, name, []byte("content of "+strings.TrimPrefix(name, "odd/")))
		}
		// The listing has the bytes of each, and nothing else.
		got := map[string]bool{}
		for _, e := range all(t, view) {
			got[e.Path.String()] = true
		}
		for name := range kept {
			if !got[name] {
				t.Errorf("%q is not listed", name)
			}
		}
		if len(got) != len(kept) {
			t.Errorf("%d files are listed, %d were written", len(got), len(kept))
		}
		if others := all(t, viewOf(store, ben)); len(others) > 0 {
			t.Errorf("another space has %v", others)
		}
		for name := range kept {
			if _, err := view.Delete(t.Context(), call, files.Delete{Path: fsops.PathOf(name)}); err != nil {
				t.Errorf("delete %q: %v", name, err)
			}
		}
		if left := all(t, view); len(left) > 0 {
			t.Errorf("%d files are left", len(left))
		}
	})
}

// TestNormalFormsAreOneFile writes a name in one form and reads it in the other; case variants are two files.
func TestNormalFormsAreOneFile(t *testing.T) {
	each(t, func(t *testing.T, store files.Store) {
		composed, decomposed := "d\u00e9/\u00fc.txt", "de\u0301/u\u0308.txt"
		mustWrite(t, store, ana, composed, []byte("one"))
		mustHold(t, store, ana, decomposed, []byte("one"))
		mustWrite(t, store, ana, decomposed, []byte("two"))
		mustHold(t, store, ana, composed, []byte("two"))
		mustWrite(t, store, ana, "Case", []byte("upper"))
		mustWrite(t, store, ana, "case", []byte("lower"))
		mustHold(t, store, ana, "Case", []byte("upper"))
		if n := len(all(t, viewOf(store, ana))); n != 3 {
			t.Errorf("%d files, want 3", n)
		}
	})
}

// all lists every file of a view, in pages.
func all(t *testing.T, view *files.View) []files.Entry {
	t.Helper()
	var out []files.Entry
	for token := ""; ; {
		page, err := view.List(t.Context(), fsops.Path{}, true, 100, token)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, e := range page.Entries {
			if e.Kind == files.KindFile {
				out = append(out, e)
			}
		}
		if token = page.Next; token == "" {
			return out
		}
	}
}

// TestHostileIDs gives buckets to ids that look like paths, keys, patterns and each other: each sees its own files only, and forgetting one forgets nothing of others.
func TestHostileIDs(t *testing.T) {
	ids := []string{
		"a", "ab", "A", "a/b", "a/../b", "..", ".", "/", "//", "a:b", "a\\b", "%", "_", "*", "a%", "%2e%2e", "=2e", "con", "a b", "é", "e\u0301", "ß", "SS", "🐟", strings.Repeat("a", 256),
		strings.Repeat("a", 255) + "b", strings.Repeat("Ü", 128), "user", "template", "default",
	}
	var buckets []identity.Bucket
	for i, id := range ids {
		for _, b := range []identity.Identity{
			{Agent: "coder", User: id}, {Agent: id, Scope: identity.ScopeAgent}, {Tenant: id, Scope: identity.ScopeGlobal}, {Agent: "coder", User: id, Session: ids[len(ids)-1-i], Scope: identity.ScopeSession},
		} {
			bucket, err := b.Bucket()
			if err != nil {
				t.Fatal(err)
			}
			buckets = append(buckets, bucket)
		}
	}
	each(t, func(t *testing.T, store files.Store) {
		space := func(i int) files.Space { return files.BucketSpace(buckets[i]) }
		content := func(i int) []byte { return fmt.Appendf(nil, "of bucket %d", i) }
		var refused []int
		for i := range buckets {
			if err := write(t.Context(), store, space(i), "dir/file", content(i)); err != nil {
				mustBeTyped(t, err)
				refused = append(refused, i)
			}
		}
		if len(refused) > 0 {
			t.Errorf("%d buckets can't be kept, the first is %s", len(refused), buckets[refused[0]])
		}
		for i := range buckets {
			mustHold(t, store, space(i), "dir/file", content(i))
			if entries := all(t, viewOf(store, space(i))); len(entries) != 1 {
				t.Errorf("%s lists %d files", buckets[i], len(entries))
			}
		}
		for i := 0; i < len(buckets); i += 2 {
			if n, err := store.Forget(t.Context(), space(i)); err != nil || n != 1 {
				t.Errorf("forget %s: %d files, %v", buckets[i], n, err)
			}
		}
		var left []string
		for after := files.Space(""); ; {
			page, err := store.Spaces(t.Context(), "", after, 50)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page {
				left, after = append(left, string(s)), s
			}
			if len(page) < 50 {
				break
			}
		}
		var want []string
		for i := 1; i < len(buckets); i += 2 {
			mustHold(t, store, space(i), "dir/file", content(i))
			want = append(want, string(space(i)))
		}
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("%d spaces are left, want %d", len(left), len(want))
		}
	})
}
