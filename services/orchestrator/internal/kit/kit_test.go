package kit

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

func kitOf(agent, call *orchestratorv1.AgentSpec, child *run.Child, sub *definition.Subagent) *Kit {
	return &Kit{
		definition: &definition.Definition{Agent: "coder", Spec: agent}, call: &orchestratorv1.RunInput{Spec: call}, facts: run.Facts{Child: child, RunID: "r1"}, subagent: sub, now: time.Now,
	}
}

func TestSettingsAreTheStricterBudgetAndTheNearerSteps(t *testing.T) {
	agent := &orchestratorv1.AgentSpec{MaxSteps: 20, Budget: &orchestratorv1.Budget{Tokens: 1000, WallTime: durationpb.New(time.Minute)}}
	for name, c := range map[string]struct {
		call *orchestratorv1.AgentSpec
		sub  *definition.Subagent
		want loop.Settings
	}{
		"of the agent": {nil, nil, loop.Settings{MaxSteps: 20, Tokens: 1000, WallTimeMillis: 60_000}},
		"a call narrows": {
			&orchestratorv1.AgentSpec{MaxSteps: 5, Budget: &orchestratorv1.Budget{Tokens: 10, CostMicros: 7}}, nil,
			loop.Settings{MaxSteps: 5, Tokens: 10, CostMicros: 7, WallTimeMillis: 60_000},
		},
		"a call cannot spend more": {&orchestratorv1.AgentSpec{Budget: &orchestratorv1.Budget{Tokens: 9999}}, nil, loop.Settings{MaxSteps: 20, Tokens: 1000, WallTimeMillis: 60_000}},
		"a subagent has its steps": {nil, &definition.Subagent{Steps: 3}, loop.Settings{MaxSteps: 3, Tokens: 1000, WallTimeMillis: 60_000}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, kitOf(agent, c.call, nil, c.sub).Settings()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnknownOutcomeGoesFromTheCallDownToTheAgent(t *testing.T) {
	agent, call, parent := &orchestratorv1.AgentSpec{UnknownOutcome: "fail"}, &orchestratorv1.AgentSpec{UnknownOutcome: "skip"}, &run.Child{UnknownOutcome: "retry"}
	for name, c := range map[string]struct {
		kit  *Kit
		want string
	}{
		"the call":    {kitOf(agent, call, parent, nil), "skip"},
		"the parent":  {kitOf(agent, nil, parent, nil), "retry"},
		"the agent":   {kitOf(agent, nil, nil, nil), "fail"},
		"the default": {kitOf(&orchestratorv1.AgentSpec{}, nil, nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.kit.Settings().UnknownOutcome; got != c.want {
				t.Errorf("the setting is %q", got)
			}
			data, err := c.kit.delegate(definition.Subagent{ID: "tester"}, "")
			if err != nil || data.GetFields()["unknown_outcome"].GetStringValue() != c.want {
				t.Errorf("a child gets %v, %v", data, err)
			}
		})
	}
}

func TestServersOfACallGoBeforeTheTemplates(t *testing.T) {
	servers, err := structpb.NewStruct(map[string]any{"web": map[string]any{"url": "https://call"}, "more": map[string]any{"url": "https://more"}})
	if err != nil {
		t.Fatal(err)
	}
	call := &orchestratorv1.AgentSpec{McpServers: servers}
	template := definition.ToolsConfig{Servers: []definition.Server{{Name: "git", Command: "git-mcp"}, {Name: "web", URL: "https://template"}}}
	for name, c := range map[string]struct {
		agent, call *orchestratorv1.AgentSpec
		want        []definition.Server
	}{
		"the template's":        {&orchestratorv1.AgentSpec{}, nil, template.Servers},
		"the call's":            {&orchestratorv1.AgentSpec{}, call, []definition.Server{{Name: "git", Command: "git-mcp"}, {Name: "more", URL: "https://more"}, {Name: "web", URL: "https://call"}}},
		"tools.json is off":     {&orchestratorv1.AgentSpec{Disable: []string{"tools_config"}}, nil, nil},
		"off, but for the call": {&orchestratorv1.AgentSpec{Disable: []string{"tools_config"}}, call, []definition.Server{{Name: "more", URL: "https://more"}, {Name: "web", URL: "https://call"}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := kitOf(c.agent, c.call, nil, nil)
			k.definition.Tools = template
			if diff := cmp.Diff(c.want, k.servers()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestModelsGoFromTheCallDownToTheAgent(t *testing.T) {
	agent := &orchestratorv1.AgentSpec{Model: "agent", FallbackModel: "spare"}
	for name, c := range map[string]struct {
		kit  *Kit
		want string
	}{
		"the call":     {kitOf(agent, &orchestratorv1.AgentSpec{Model: "call"}, &run.Child{Model: "parent"}, &definition.Subagent{Model: "sub"}), "call"},
		"the subagent": {kitOf(agent, nil, &run.Child{Model: "parent"}, &definition.Subagent{Model: "sub"}), "sub"},
		"the parent":   {kitOf(agent, nil, &run.Child{Model: "parent"}, &definition.Subagent{}), "parent"},
		"the agent":    {kitOf(agent, nil, nil, nil), "agent"},
		"the default":  {kitOf(&orchestratorv1.AgentSpec{}, nil, nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := c.kit.Models(); got != c.want {
				t.Errorf("the model is %q", got)
			}
		})
	}
}

// TestPolicyOnlyNarrows checks who may loosen what: a call and a child may not.
func TestPolicyOnlyNarrows(t *testing.T) {
	write := tool.Spec{Name: "write_file", EffectKind: tool.EffectFiles, Subject: "path"}
	secret := tool.Call{Name: "write_file", Arguments: json.RawMessage(`{"path":"secret/x"}`)}
	strict := &orchestratorv1.AgentSpec{PolicyMode: "default", PolicyRules: []string{"deny write_file(secret/**)"}}
	for name, c := range map[string]struct {
		agent, call *orchestratorv1.AgentSpec
		child       *run.Child
		thread      loop.Thread
		want        policy.Verdict
	}{
		"the agent's rule":                 {strict, nil, nil, loop.Thread{}, policy.Deny},
		"a call that bypasses":             {strict, &orchestratorv1.AgentSpec{PolicyMode: "bypass", PolicyRules: []string{"allow write_file"}}, nil, loop.Thread{}, policy.Deny},
		"a rule that the thread remembers": {strict, nil, nil, loop.Thread{Rules: []string{"allow write_file"}}, policy.Deny},
		"nothing says no":                  {&orchestratorv1.AgentSpec{}, nil, nil, loop.Thread{}, policy.Allow},
		"the call's rule":                  {&orchestratorv1.AgentSpec{PolicyMode: "bypass"}, &orchestratorv1.AgentSpec{PolicyRules: []string{"deny write_file"}}, nil, loop.Thread{}, policy.Deny},
		"the parent's rule":                {&orchestratorv1.AgentSpec{PolicyMode: "bypass"}, nil, &run.Child{Rules: []string{"deny write_file"}}, loop.Thread{}, policy.Deny},
		"the parent's mode":                {&orchestratorv1.AgentSpec{PolicyMode: "bypass"}, nil, &run.Child{Mode: "explore"}, loop.Thread{}, policy.Deny},
		"the parent plans":                 {&orchestratorv1.AgentSpec{}, nil, &run.Child{Planning: true}, loop.Thread{}, policy.Deny},
		"the thread plans":                 {&orchestratorv1.AgentSpec{}, nil, nil, loop.Thread{Planning: true}, policy.Deny},
		"a mode that the thread was given": {&orchestratorv1.AgentSpec{}, nil, nil, loop.Thread{Mode: "explore"}, policy.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			k := kitOf(c.agent, c.call, c.child, nil)
			var err error
			if k.policy, err = k.basePolicy(); err != nil {
				t.Fatal(err)
			}
			if got := k.Policy(&c.thread).Decide(write, secret); got.Verdict != c.want {
				t.Errorf("the verdict is %v by %q", got.Verdict, got.Rule)
			}
		})
	}
}

func TestABadPolicyIsRefused(t *testing.T) {
	for _, spec := range []*orchestratorv1.AgentSpec{{PolicyMode: "anarchy"}, {PolicyRules: []string{"maybe x"}}} {
		if _, err := kitOf(spec, nil, nil, nil).basePolicy(); err == nil {
			t.Errorf("%v passes", spec)
		}
	}
}

func TestAChildHasAtMostItsParentsTools(t *testing.T) {
	parent := []string{"read_file", "thread_search", "write_file"}
	for name, c := range map[string]struct {
		child *run.Child
		sub   *definition.Subagent
		want  []string
	}{
		"no child":                         {nil, nil, nil},
		"all of the parent's":              {&run.Child{Tools: parent}, &definition.Subagent{}, parent},
		"those that it declares":           {&run.Child{Tools: parent}, &definition.Subagent{Tools: []string{"read_file", "session_search"}}, []string{"read_file", "thread_search"}},
		"none that the parent lacks":       {&run.Child{Tools: parent}, &definition.Subagent{Tools: []string{"execute"}}, []string{"none"}},
		"a task without a parent's list":   {&run.Child{}, &definition.Subagent{Tools: []string{"execute"}}, []string{"execute"}},
		"an unknown parent, no allow-list": {&run.Child{}, &definition.Subagent{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kitOf(&orchestratorv1.AgentSpec{}, nil, c.child, c.sub).only(); !slices.Equal(got, c.want) {
				t.Errorf("the list is %v", got)
			}
		})
	}
}

func TestDelegateHandsTheCeilingsDown(t *testing.T) {
	k := kitOf(&orchestratorv1.AgentSpec{Model: "m", PolicyMode: "accept_edits", PolicyRules: []string{"deny execute", "allow write_file", "ask move_file"}}, nil, &run.Child{Depth: 1, Planning: true}, nil)
	k.names = []string{"read_file"}
	var err error
	if k.policy, err = k.basePolicy(); err != nil {
		t.Fatal(err)
	}
	data, err := k.delegate(definition.Subagent{ID: "tester", Shared: true}, "t1")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := data.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got run.Child
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := run.Child{
		ParentRunID: "r1", Subagent: "tester", Label: "t1", Depth: 2, Shared: true, Tools: []string{"read_file"}, Mode: got.Mode, Rules: []string{"deny execute", "ask move_file"}, Planning: true, Model: "m",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
