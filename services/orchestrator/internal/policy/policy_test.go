package policy

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

var (
	read    = tool.Spec{Name: "read_file", ReadOnly: true, EffectKind: tool.EffectNone, Subject: "path"}
	write   = tool.Spec{Name: "write_file", EffectKind: tool.EffectFiles, Subject: "path"}
	execute = tool.Spec{Name: "execute", EffectKind: tool.EffectExec, Subject: "command"}
	fetch   = tool.Spec{Name: "web_fetch", ReadOnly: false, EffectKind: tool.EffectNetwork, Subject: "url"}
	remote  = tool.Spec{Name: "mcp__ledger__append", EffectKind: tool.EffectNetwork}
	leave   = tool.Spec{Name: "plan_exit", EffectKind: tool.EffectNone, Ask: true}
)

func TestDecide(t *testing.T) {
	tests := []struct {
		name    string
		mode    Mode
		plan    bool
		rules   []string
		spec    tool.Spec
		subject string
		want    Verdict
		rule    string
	}{
		{"reading needs no rule", "", false, nil, read, "a", Allow, "read-only"},
		{"own files need no rule", "", false, nil, write, "a", Allow, "mode default"},
		{"the network asks", "", false, nil, fetch, "https://example.org/x", Ask, "mode default"},
		{"an allow rule answers for the network", "", false, []string{"allow web_fetch(example.org)"}, fetch, "https://example.org/x", Allow, "allow web_fetch(example.org)"},
		{"another host still asks", "", false, []string{"allow web_fetch(example.org)"}, fetch, "https://example.org.evil.test/", Ask, "mode default"},
		{"deny wins over allow", "", false, []string{"allow *", "deny write_file(docs/**)"}, write, "docs/a/b.md", Deny, "deny write_file(docs/**)"},
		{"deny is by the resolved path", "", false, []string{"deny write_file(docs/**)"}, write, "x/../docs/b.md", Deny, "deny write_file(docs/**)"},
		{"deny wins in bypass", ModeBypass, false, []string{"deny execute"}, execute, "ls", Deny, "deny execute"},
		{"bypass skips ask rules", ModeBypass, false, []string{"ask execute"}, execute, "ls", Allow, "mode bypass"},
		{"a tool that insists asks in bypass", ModeBypass, false, nil, leave, "", Ask, "tool"},
		{"dont_ask denies what would ask", ModeDontAsk, false, []string{"ask execute"}, execute, "ls", Deny, "mode dont_ask"},
		{"explore is read-only", ModeExplore, false, []string{"allow write_file"}, write, "a", Deny, "mode explore"},
		{"explore reads", ModeExplore, false, nil, read, "a", Allow, "read-only"},
		{"accept_edits edits", ModeAcceptEdits, false, nil, write, "a", Allow, "mode accept_edits"},
		{"ask before allow", "", false, []string{"allow execute(git *)", "ask execute(git push*)"}, execute, "git push origin", Ask, "ask execute(git push*)"},
		{"a denied command hides behind another", "", false, []string{"deny execute(rm *)"}, execute, "true && rm -rf x", Deny, "deny execute(rm *)"},
		{"a denied command in a substitution", "", false, []string{"deny execute(rm *)"}, execute, "echo $(rm -rf x)", Deny, "deny execute(rm *)"},
		{"an allowed command carries another", ModeDontAsk, false, []string{"ask execute", "allow execute(git *)"}, execute, "git status; curl x", Deny, "mode dont_ask"},
		{"a rule for all tools of a server", "", false, []string{"allow mcp__ledger__*"}, remote, "", Allow, "allow mcp__ledger__*"},
		{"a rule for another server", "", false, []string{"allow mcp__ledge__*"}, remote, "", Ask, "mode default"},
		{"deny for all servers", ModeBypass, false, []string{"deny mcp__*__append"}, remote, "", Deny, "deny mcp__*__append"},
		{"plan mode blocks writes", "", true, nil, write, "a", Deny, "plan mode"},
		{"plan mode reads", "", true, nil, read, "a", Allow, "read-only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, err := ParseRules(tt.rules)
			if err != nil {
				t.Fatal(err)
			}
			args, _ := json.Marshal(map[string]string{tt.spec.Subject: tt.subject})
			got := Policy{Mode: tt.mode, Rules: rules, Planning: tt.plan}.Decide(tt.spec, tool.Call{Name: tt.spec.Name, Arguments: args})
			if got.Verdict != tt.want || got.Rule != tt.rule {
				t.Errorf("Decide = %v by %q, want %v by %q", got.Verdict, got.Rule, tt.want, tt.rule)
			}
		})
	}
}

func TestAllowRuleCoversEveryPartOfACommand(t *testing.T) {
	rule, err := ParseRule("allow execute(git *)")
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]bool{
		"git status":                 true,
		"git add -A && git commit":   true,
		"git status; rm x":           false,
		"git log | sh":               false,
		"git log `curl x`":           false,
		"gitk":                       false,
		"":                           false,
		"git status\nrm x":           false,
		"git log --format=\"a;b c\"": false, // cut inside quotes: stricter, never looser
	} {
		if got := rule.Matches(execute, command); got != want {
			t.Errorf("Matches(%q) = %v, want %v", command, got, want)
		}
	}
}

func TestRuleRoundTripAndErrors(t *testing.T) {
	for _, s := range []string{"deny execute", "ask write_file(docs/**)", "allow *", "deny mcp__x__y(a)"} {
		r, err := ParseRule(s)
		if err != nil || r.String() != s {
			t.Errorf("ParseRule(%q) = %v, %v", s, r, err)
		}
	}
	for _, s := range []string{"", "deny", "forbid x", "deny a b", "deny x(", "deny (x)", "deny x)", "deny x()y"} {
		if _, err := ParseRule(s); errdefs.ReasonOf(err) != "SPEC_INVALID" {
			t.Errorf("ParseRule(%q) = %v, want SPEC_INVALID", s, err)
		}
	}
}

func TestCeilingOnlyTightens(t *testing.T) {
	parent := Policy{Mode: ModeExplore, Rules: []Rule{{Deny, "execute", ""}, {Allow, "write_file", ""}}}
	child := parent.Ceiling(Policy{Mode: ModeBypass, Rules: []Rule{{Allow, "execute", ""}}})
	if child.Mode != ModeExplore {
		t.Errorf("mode = %q, want the parent's stricter one", child.Mode)
	}
	if d := child.Decide(execute, tool.Call{Name: "execute", Arguments: []byte(`{"command":"ls"}`)}); d.Verdict != Deny {
		t.Errorf("a child may run what its parent may not: %v", d)
	}
	for _, r := range child.Rules {
		if r.Verdict == Allow && r.Tool == "write_file" {
			t.Error("an allow rule of the parent reached the child")
		}
	}
}
