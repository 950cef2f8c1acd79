package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

func TestToolName(t *testing.T) {
	long := strings.Repeat("x", 80)
	for _, c := range []struct{ server, tool, want string }{
		{"git", "log", "mcp__git__log"},
		{"git", "admin.tools/list", "mcp__git__admin_tools_list"},
		{"git", "größe", "mcp__git__gr__e"},
		{"git", long, ""},
	} {
		got := toolName(c.server, c.tool)
		if c.tool == long {
			if len(got) != maxName || got == toolName(c.server, long+"y") {
				t.Errorf("%s: %q has %d characters, or is that of another tool too", c.tool, got, len(got))
			}
			continue
		}
		if got != c.want {
			t.Errorf("toolName(%q, %q) = %q, want %q", c.server, c.tool, got, c.want)
		}
	}
}

func TestExpandGivesWhatIsAllowedWhereItIsAllowed(t *testing.T) {
	cfg := Config{Variables: []string{"TOKEN", "UNSET"}, Getenv: func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0", "SECRET": "s0"}[name]
		return v, ok
	}}
	who := Caller{Tenant: "acme", Agent: "coder", User: "ana", Attributes: map[string]string{"key": "k0"}}
	for name, c := range map[string]struct {
		in       string
		header   string
		url      string
		personal bool
		missing  []string
	}{
		"nothing":               {"plain $TOKEN", "plain $TOKEN", "plain $TOKEN", false, nil},
		"a variable":            {"Bearer ${TOKEN}", "Bearer t0", "Bearer t0", false, nil},
		"one that is not there": {"a${UNSET}b", "ab", "ab", false, []string{"UNSET"}},
		"one of nobody":         {"${SECRET}", "", "", false, []string{"SECRET"}},
		"of the agent":          {"${gantry.tenant}/${gantry.agent}", "acme/coder", "/", false, nil},
		"of the user":           {"${gantry.user}", "ana", "", true, nil},
		"an attribute":          {"${attribute.key}", "k0", "", true, nil},
		"a missing attribute":   {"${attribute.other}", "", "", true, []string{"attribute.other"}},
		"no loop":               {"${${TOKEN}}", "${t0}", "${t0}", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out, personal, missing := cfg.expand(who, definition.Server{Name: "s", Headers: map[string]string{"h": c.in}})
			if out.Headers["h"] != c.header || personal != c.personal || !slices.Equal(missing, c.missing) {
				t.Errorf("a header becomes %q, personal %v, missing %v", out.Headers["h"], personal, missing)
			}
			// What the caller says decides neither where a call goes nor what is started.
			out, personal, _ = cfg.expand(who, definition.Server{Name: "s", URL: c.in, Command: c.in, Args: []string{c.in}})
			if diff := cmp.Diff(definition.Server{Name: "s", URL: c.url, Command: c.url, Args: []string{c.url}}, out); diff != "" || personal {
				t.Errorf("personal %v, %s", personal, diff)
			}
		})
	}
}

func TestKeysDifferByWhatTheConnectionSaysOfItsUser(t *testing.T) {
	plain, header := definition.Server{Name: "s"}, definition.Server{Name: "s", Headers: map[string]string{"a": "${gantry.user}"}}
	of := func(who Caller, s definition.Server) key {
		out, personal, _ := Config{}.expand(who, s)
		return keyOf(who, out, personal)
	}
	ana, ben := Caller{Tenant: "t", Agent: "a", User: "ana"}, Caller{Tenant: "t", Agent: "a", User: "ben"}
	nobody, other := Caller{Tenant: "t", Agent: "a", Session: "1"}, Caller{Tenant: "t", Agent: "a", Session: "2"}
	for name, c := range map[string]struct {
		a, b key
		same bool
	}{
		"one server of one agent":   {of(ana, plain), of(ben, plain), true},
		"a user's own header":       {of(ana, header), of(ben, header), false},
		"the same user again":       {of(ana, header), of(ana, header), true},
		"two without a name":        {of(nobody, header), of(other, header), false},
		"another tenant":            {of(ana, plain), of(Caller{Tenant: "u", Agent: "a", User: "ana"}, plain), false},
		"another agent":             {of(ana, plain), of(Caller{Tenant: "t", Agent: "b", User: "ana"}, plain), false},
		"the declaration's changed": {of(ana, plain), of(ana, definition.Server{Name: "s", URL: "x"}), false},
	} {
		if (c.a == c.b) != c.same {
			t.Errorf("%s: the same connection %v", name, c.a == c.b)
		}
	}
}
