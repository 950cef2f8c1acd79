package access_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

func TestAllowsPath(t *testing.T) {
	tests := map[string]struct {
		prefixes []string
		allowed  []string
		refused  []string
	}{
		"no limit":     {nil, []string{"", "/", "a", "a/b", "../a/../b/.."}[:4], []string{"..", "../a", "a/../../b", "a\x00b"}},
		"no path":      {[]string{}, nil, []string{"", "/", "a"}},
		"the root":     {[]string{"/"}, []string{"", "a", "/a/b"}, []string{".."}},
		"whole names":  {[]string{"plans"}, []string{"plans", "/plans", "plans/", "plans/a/b", "./plans/x", "x/../plans/y"}, []string{"plans2", "plan", "Plans", "", "a/plans", "plans/../secret"}},
		"slashes":      {[]string{"/memory/"}, []string{"memory", "memory/x"}, []string{"memoryx"}},
		"several":      {[]string{"a/b", "c"}, []string{"a/b/c", "c/d"}, []string{"a", "a/c", "d"}},
		"leaves root":  {[]string{".."}, nil, []string{"..", "a", ""}},
		"unicode form": {[]string{"caf\u00e9"}, []string{"cafe\u0301/x", "café"}, []string{"cafe"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := access.Grant{PathPrefixes: tt.prefixes}
			for _, p := range tt.allowed {
				if !g.AllowsPath(p) || g.CheckPath(p) != nil {
					t.Errorf("path %q is refused", p)
				}
			}
			for _, p := range tt.refused {
				if g.AllowsPath(p) {
					t.Errorf("path %q is allowed", p)
				}
				if err := g.CheckPath(p); !errors.Is(err, errdefs.ErrPermissionDenied) || errdefs.ReasonOf(err) != access.ReasonPathDenied {
					t.Errorf("CheckPath(%q) = %v", p, err)
				}
			}
		})
	}
}

func TestAGrantCanBeStored(t *testing.T) {
	for name, g := range map[string]access.Grant{
		"of a capability": capability().Grant(),
		"no path":         {Source: access.SourceClient, Verbs: []string{"fs.read"}, PathPrefixes: []string{}, Agents: []string{"*"}, Scopes: []string{"agent"}},
		"no limit":        {Source: access.SourceTrusted, Identity: identity.Identity{Tenant: "t", Scope: identity.ScopeAgent, ScopeUnset: true}},
	} {
		data, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var got access.Grant
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g, got); diff != "" {
			t.Errorf("%s (-stored +read):\n%s", name, diff)
		}
		if strings.Contains(string(data), "token") {
			t.Errorf("%s: a token is stored: %s", name, data)
		}
	}
	var g access.Grant
	if err := json.Unmarshal([]byte(`{"identity":{"scope":"everything"}}`), &g); err == nil {
		t.Error("a scope that does not exist was read")
	}
}

func TestTheZeroGrantAllowsNothing(t *testing.T) {
	var g access.Grant
	if g.Allows("fs.read") || g.AllowsAgent("default") || g.AllowsScope(identity.ScopeUser) || g.Internal() {
		t.Error("the zero grant allows something")
	}
	if err := g.Check("fs.read"); errdefs.ReasonOf(err) != access.ReasonVerbMissing {
		t.Errorf("Check = %v", err)
	}
	if err := g.Check(); err != nil {
		t.Errorf("Check of no verbs = %v", err)
	}
}

func TestNarrow(t *testing.T) {
	tests := map[string]struct {
		haveVerbs, havePaths, verbs, paths, wantVerbs, wantPaths []string
	}{
		"nothing asked":     {[]string{"a"}, []string{"p"}, nil, nil, []string{"a"}, []string{"p"}},
		"subset":            {[]string{"a", "b"}, nil, []string{"b"}, []string{"p"}, []string{"b"}, []string{"p"}},
		"never more verbs":  {[]string{"a"}, nil, []string{"a", "b"}, nil, []string{"a"}, nil},
		"wildcard asked":    {[]string{"a"}, nil, []string{"*"}, nil, []string{"a"}, nil},
		"wildcard had":      {[]string{"*"}, nil, []string{"a", "a"}, nil, []string{"a"}, nil},
		"nothing left":      {[]string{"a"}, []string{"p"}, []string{}, []string{}, []string{}, []string{}},
		"inner path":        {nil, []string{"p"}, nil, []string{"p/q"}, nil, []string{"p/q"}},
		"outer path":        {nil, []string{"p/q"}, nil, []string{"p"}, nil, []string{"p/q"}},
		"root asked":        {nil, []string{"p/q", "r"}, nil, []string{"/"}, nil, []string{"p/q", "r"}},
		"elsewhere":         {nil, []string{"p"}, nil, []string{"q"}, nil, []string{}},
		"beside by name":    {nil, []string{"p"}, nil, []string{"pp"}, nil, []string{}},
		"out of the root":   {nil, []string{"p"}, nil, []string{"p/../.."}, nil, []string{}},
		"none stays none":   {nil, []string{}, nil, []string{"p"}, nil, []string{}},
		"dressed-up parent": {nil, []string{"p"}, nil, []string{"/p/../p/./q/"}, nil, []string{"p/q"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			parent := access.Grant{Verbs: tt.haveVerbs, PathPrefixes: tt.havePaths}
			child := parent.Narrow(tt.verbs, tt.paths)
			if !slices.Equal(child.Verbs, tt.wantVerbs) {
				t.Errorf("verbs %v, want %v", child.Verbs, tt.wantVerbs)
			}
			if !slices.Equal(child.PathPrefixes, tt.wantPaths) || (child.PathPrefixes == nil) != (tt.wantPaths == nil) {
				t.Errorf("paths %#v, want %#v", child.PathPrefixes, tt.wantPaths)
			}
			c := access.Capability{Verbs: tt.haveVerbs, PathPrefixes: tt.havePaths}.Narrow(tt.verbs, tt.paths)
			if !slices.Equal(c.Verbs, child.Verbs) || !slices.Equal(c.PathPrefixes, child.PathPrefixes) {
				t.Error("capabilities narrow otherwise than grants")
			}
		})
	}
}

// FuzzNarrow holds that a child is never allowed what its parent is not.
func FuzzNarrow(f *testing.F) {
	f.Add("p", "p/q", "p/q/r")
	f.Add("p/q", "/", "p")
	f.Add("a", "../a", "a/../b")
	f.Fuzz(func(t *testing.T, have, want, path string) {
		parent := access.Grant{PathPrefixes: []string{have}, Verbs: []string{have}}
		child := parent.Narrow([]string{want}, []string{want})
		if child.AllowsPath(path) && !parent.AllowsPath(path) {
			t.Fatalf("child of %q with %q may use %q", have, want, path)
		}
		if child.Allows(path) && !parent.Allows(path) {
			t.Fatalf("child of %q with %q has the verb %q", have, want, path)
		}
		if plain := (access.Grant{PathPrefixes: []string{want}}); parent.AllowsPath(path) && plain.AllowsPath(path) && !child.AllowsPath(path) {
			t.Fatalf("child of %q with %q lost %q, which both allow", have, want, path)
		}
	})
}
