package manifesttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// hostile are names of spaces that try to reach into each other's keys.
var hostile = []files.Space{
	"a", "a/b", "a/b/c", "a/", "/a", "a//b", "a/../b", "a/./b", "..", ".", "../a", "a:b", "a:", ":a", "ab", "A", "a!", "a!/log", "a!/log/0000000000000001", "a/log", "a/chunk", "!", "!!",
	"*", "?", "[a]", "a*", "%", "%61", "a%2fb", "%2e%2e", "_", "{a}", "{a", "a}", "}a{", "{}", "{}a", "a}:log", "a{b}c", "ü", "u\u0308", "아나", "a b", " a", "a ", "a\nb", "a\x00b", "\xff",
	"spaces/a", "data/a!", "staged", "a.b", ".a", "a.", "a..b", "~", "a=b", "a+b", `a\b`, "a'b", `a"b`, "con",
}

// names writes to spaces of hostile names: none sees anything of another, and forgetting one leaves the others.
func names(t testkit.T, replica Replica) {
	all := slices.Clone(hostile)
	long := strings.Repeat("x", 190)
	for _, b := range []identity.Bucket{
		{Tenant: long, Scope: identity.ScopeSession, Agent: long, User: long, Session: long + "1"},
		{Tenant: long, Scope: identity.ScopeSession, Agent: long, User: long, Session: long + "2"},
		{Tenant: strings.Repeat("Ü", 120), Scope: identity.ScopeSession, Agent: strings.Repeat("Ü", 120), User: strings.Repeat("Ü", 120), Session: strings.Repeat("Ü", 120)},
	} {
		all = append(all, files.BucketSpace(b))
	}
	here, there := replica(t), replica(t)
	var kept []files.Space
	for i, name := range all {
		lacks(t, here, name, "secret")
		out, err := tryWrite(t.Context(), here, name, call, files.Write{Path: fsops.PathOf("secret")}, strings.NewReader(fmt.Sprint("token ", i)))
		if errdefs.ReasonOf(err) == fsops.ReasonNameUnsupported {
			continue
		}
		if err != nil || !out.Created {
			t.Errorf("write in %q: %+v, %v", name, out, err)
			continue
		}
		kept = append(kept, name)
	}
	check := func(but files.Space) {
		t.Helper()
		for i, name := range all {
			if slices.Contains(kept, name) && name != but {
				has(t, there, name, "secret", fmt.Sprint("token ", i))
				if u, err := there.Usage(t.Context(), name); err != nil || u.Files != 1 {
					t.Errorf("%q holds %+v, %v", name, u, err)
				}
			}
		}
	}
	check("-")
	got, err := there.Spaces(t.Context(), "", "", 1000)
	slices.Sort(kept)
	if err != nil || !slices.Equal(got, kept) {
		t.Errorf("spaces %q, %v\nwant %q", got, err, kept)
	}
	got = nil
	for after := files.Space(""); ; after = got[len(got)-1] {
		page, err := there.Spaces(t.Context(), "a", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, page...); len(page) < 3 {
			break
		}
	}
	want := slices.DeleteFunc(slices.Clone(kept), func(s files.Space) bool { return !strings.HasPrefix(string(s), "a") })
	if !slices.Equal(got, want) {
		t.Errorf("spaces that begin with a, in pages: %q, want %q", got, want)
	}
	for _, name := range []files.Space{"a", "a/b", "*", "{a}", "%", all[len(all)-2]} {
		if n, err := here.Forget(t.Context(), name); err != nil || n != 1 {
			t.Errorf("forgot %d files of %q, %v", n, name, err)
		}
		lacks(t, there, name, "secret")
		kept = slices.DeleteFunc(kept, func(s files.Space) bool { return s == name })
		check(name)
	}
}
