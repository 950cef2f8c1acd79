package definition

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func fields(t *testing.T, m map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func problems(d *Definition) string {
	var all []string
	for _, p := range d.Problems {
		all = append(all, p.GetPath()+": "+p.GetProblem())
	}
	return strings.Join(all, "; ")
}

func TestSubagentFrontMatter(t *testing.T) {
	tests := []struct {
		name    string
		front   map[string]any
		check   func(Subagent) bool
		problem string
	}{
		{"nothing but a description", nil, func(s Subagent) bool { return !s.Shared && !s.Hidden && !s.Primary && s.Steps == 0 && s.Tools == nil }, ""},
		{"all keys", map[string]any{"model": "ollama:x", "steps": 7, "temperature": 0.5, "top_p": 0.9, "hidden": true, "mode": "subagent", "workspace": map[string]any{"mode": "shared"}, "tools": []any{"read_file", "execute"}, "skills": "a, b"},
			func(s Subagent) bool {
				return s.Model == "ollama:x" && s.Steps == 7 && *s.Temperature == 0.5 && *s.TopP == 0.9 && s.Hidden && s.Shared && len(s.Tools) == 2 && s.Skills[1] == "b"
			}, ""},
		{"steps wins over its old name", map[string]any{"steps": 3, "maxIters": 9}, func(s Subagent) bool { return s.Steps == 3 }, ""},
		{"the old name alone", map[string]any{"maxIters": 9}, func(s Subagent) bool { return s.Steps == 9 }, ""},
		{"primary is not to be spawned", map[string]any{"mode": "primary"}, func(s Subagent) bool { return s.Primary }, ""},
		{"unknown mode", map[string]any{"mode": "secondary"}, func(s Subagent) bool { return !s.Primary }, "is none of primary"},
		{"unknown workspace mode", map[string]any{"workspace": map[string]any{"mode": "both"}}, func(s Subagent) bool { return !s.Shared }, "is none of isolated"},
		{"a number that is a text", map[string]any{"temperature": "hot"}, func(s Subagent) bool { return s.Temperature == nil }, "temperature is not a number"},
		{"steps with a fraction", map[string]any{"steps": 1.5}, func(s Subagent) bool { return s.Steps == 0 }, "steps is not a whole number"},
		{"another name than its file", map[string]any{"name": "Carl"}, func(s Subagent) bool { return s.ID == "critic" }, "the file name"},
		{"depth has a ceiling", map[string]any{"depth": 9}, func(s Subagent) bool { return s.Depth == 2 }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := fromProto(DefaultAgent, &workspacev1.Definition{Subagents: []*workspacev1.Subagent{{
				Id: "critic", Description: "d", Source: &workspacev1.Source{Path: "subagents/critic.md"}, FrontMatter: fields(t, tt.front),
			}}})
			if err != nil {
				t.Fatal(err)
			}
			if !tt.check(d.Subagents[0]) {
				t.Errorf("subagent = %+v", d.Subagents[0])
			}
			if got := problems(d); tt.problem == "" && got != "" || !strings.Contains(got, tt.problem) {
				t.Errorf("problems = %q, want %q", got, tt.problem)
			}
		})
	}
}

func TestToolsLayersCombineToTheStricter(t *testing.T) {
	layer := func(m map[string]any) *workspacev1.ToolsLayer { return &workspacev1.ToolsLayer{Config: fields(t, m)} }
	d, err := fromProto(DefaultAgent, &workspacev1.Definition{Tools: []*workspacev1.ToolsLayer{
		layer(map[string]any{"deny": []any{"execute"}, "allow": []any{"read_file", "write_file", "execute"}}),
		layer(map[string]any{"deny": []any{"write_file"}, "allow": []any{"write_file", "execute", "memory_save"}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"read_file": true, "write_file": true, "execute": true, "memory_save": true, "grep_files": true} {
		if _, removed := d.Tools.Removes(name); removed != want {
			t.Errorf("Removes(%s) = %v, want %v", name, removed, want)
		}
	}
	empty, err := fromProto(DefaultAgent, &workspacev1.Definition{Tools: []*workspacev1.ToolsLayer{layer(map[string]any{"allow": []any{}})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, removed := empty.Tools.Removes("read_file"); removed {
		t.Error("an empty allow list must not restrict")
	}
}

func TestToolsJSONFailsClosed(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"deny is an object":    {"deny": map[string]any{"execute": true}},
		"allow is a number":    {"allow": 5},
		"deny holds a number":  {"deny": []any{"execute", 5}},
		"a misspelt key":       {"Deny": []any{"execute"}},
		"servers are a list":   {"mcpServers": []any{}},
		"something else again": {"denied": []any{"execute"}},
	} {
		d, err := fromProto(DefaultAgent, &workspacev1.Definition{Tools: []*workspacev1.ToolsLayer{{Config: fields(t, config)}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Fatal()) == 0 {
			t.Errorf("%s: the call goes on (%s)", name, problems(d))
		}
	}
}

func TestASubagentWithoutItsToolsIsNotOffered(t *testing.T) {
	for name, tools := range map[string]any{"a number": 5, "an object": map[string]any{}, "an empty list": []any{}} {
		d, err := fromProto(DefaultAgent, &workspacev1.Definition{Subagents: []*workspacev1.Subagent{{Id: "critic", FrontMatter: fields(t, map[string]any{"tools": tools})}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := d.Subagent("critic"); ok || !strings.Contains(problems(d), "not offered") {
			t.Errorf("tools is %s: offered %v, problems %q", name, ok, problems(d))
		}
	}
}

func TestAgentYAMLTakesTheWordsOfPeople(t *testing.T) {
	d, err := fromProto(DefaultAgent, &workspacev1.Definition{AgentConfig: fields(t, map[string]any{
		"scope": "session", "allowed_scopes": []any{"user", "SCOPE_AGENT"}, "filesystem_mode": "local-shell",
	})})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Fatal()) != 0 || d.Spec.GetScope() != commonv1.Scope_SCOPE_SESSION || len(d.Spec.GetAllowedScopes()) != 2 || d.Spec.GetFilesystemMode().String() != "FILESYSTEM_MODE_LOCAL_SHELL" {
		t.Errorf("spec = %v, problems %q", d.Spec, problems(d))
	}
	d, err = fromProto(DefaultAgent, &workspacev1.Definition{AgentConfig: fields(t, map[string]any{"scope": "everyone"})})
	if err != nil {
		t.Fatal(err)
	}
	if p := problems(d); len(d.Fatal()) != 1 || !strings.Contains(p, "scope") || strings.Contains(p, "line") || strings.Contains(p, "  ") {
		t.Errorf("problems %q", p)
	}
}

func TestAgentYAML(t *testing.T) {
	d, err := fromProto(DefaultAgent, &workspacev1.Definition{AgentConfig: fields(t, map[string]any{
		"model": "scripted:x", "max_steps": 9, "scope": "SCOPE_SESSION", "favourite_colour": "red",
	})})
	if err != nil {
		t.Fatal(err)
	}
	if d.Spec.GetModel() != "scripted:x" || d.Spec.GetMaxSteps() != 9 || d.Spec.GetScope() != commonv1.Scope_SCOPE_SESSION {
		t.Errorf("spec = %v", d.Spec)
	}
	if !strings.Contains(problems(d), `no setting is called "favourite_colour"`) || len(d.Fatal()) != 0 {
		t.Errorf("problems = %q", problems(d))
	}
	d, err = fromProto(DefaultAgent, &workspacev1.Definition{AgentConfig: fields(t, map[string]any{"max_steps": "many"})})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Fatal()) != 1 {
		t.Errorf("a setting of the wrong type must refuse calls: %q", problems(d))
	}
}

func TestToolsThatCantBeReadRefuseTheCall(t *testing.T) {
	d, err := fromProto(DefaultAgent, &workspacev1.Definition{Problems: []*workspacev1.Problem{
		{Path: "tools.json", Message: "line 3: unexpected }", Line: 3}, {Path: "skills/x/SKILL.md", Message: "no description"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if f := d.Fatal(); len(f) != 1 || f[0].GetPath() != "tools.json" || f[0].GetLine() != 3 {
		t.Errorf("fatal = %v", f)
	}
}

func TestUnknownAgent(t *testing.T) {
	if _, err := fromProto("nobody", &workspacev1.Definition{}); errdefs.ReasonOf(err) != "AGENT_NOT_FOUND" {
		t.Errorf("err = %v, want AGENT_NOT_FOUND", err)
	}
	if _, err := fromProto(DefaultAgent, &workspacev1.Definition{}); err != nil {
		t.Errorf("the default agent needs no definition: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		entry, name string
		want        bool
	}{{"read_file", "read_file", true}, {"session_search", "thread_search", true}, {"thread_search", "thread_search", true}, {"session_", "thread_", true}, {"list", "mcp__git__list", true}, {"list", "list_files", false}, {"mcp__git__list", "mcp__git__list", true}} {
		if got := Names(tt.entry, tt.name); got != tt.want {
			t.Errorf("Names(%q, %q) = %v", tt.entry, tt.name, got)
		}
	}
}
