package prompt

import (
	"fmt"
	"strings"
	"testing"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

func text(role threadv1.Role, s string) *threadv1.Message {
	return &threadv1.Message{Role: role, Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: s}}}}
}

func input() Input {
	return Input{
		Definition: &definition.Definition{
			Agent: "coder", Spec: &orchestratorv1.AgentSpec{},
			Instructions:   definition.Text{Path: "AGENTS.md", Revision: "3", Text: "Be brief."},
			Memory:         definition.Text{Path: "MEMORY.md", Revision: "9", Text: "- likes tea\n- badge 4471\n"},
			Knowledge:      definition.Text{Path: "knowledge/KNOWLEDGE.md", Revision: "1", Text: "The build is make."},
			KnowledgeIndex: []definition.Text{{Path: "knowledge/api.md"}},
			Skills:         []definition.Skill{{Name: "review", Description: `says "no" & <why>`}},
		},
		Conversation: []*threadv1.Message{text(threadv1.Role_ROLE_USER, "hello")},
		Tools:        []tool.Spec{{Name: "agent_spawn"}, {Name: "load_skill_through_path"}, {Name: "read_file"}},
		Model:        "scripted:x",
	}
}

func compile(t *testing.T, in Input) (model.Request, *threadv1.RequestPrepared) {
	t.Helper()
	req, manifest, err := Compile(in)
	if err != nil {
		t.Fatal(err)
	}
	return req, manifest
}

func TestCompilePutsEachPartInItsPlace(t *testing.T) {
	in := input()
	in.State = State{Todos: []*threadv1.TodoItem{{Content: "dust", Status: "pending"}}}
	req, manifest := compile(t, in)
	for _, want := range []string{"Be brief.", `<skill name="review">says &#34;no&#34; &amp; &lt;why&gt;</skill>`, `<subagent id="general-purpose">`} {
		if !strings.Contains(req.System, want) {
			t.Errorf("system lacks %q", want)
		}
	}
	if strings.Contains(req.System, "badge") || strings.Contains(req.System, "make.") {
		t.Error("material without authority is in the system text")
	}
	if n := len(req.Messages); n != 3 {
		t.Fatalf("%d messages, want conversation, state, reference", n)
	}
	state, ref := req.Messages[1], req.Messages[2]
	if state.Origin != model.OriginRuntimeState || !strings.Contains(state.Text(), "pending: dust") {
		t.Errorf("state = %q", state.Text())
	}
	if ref.Origin != model.OriginReference || !strings.Contains(ref.Text(), "badge 4471") || !strings.Contains(ref.Text(), "- knowledge/api.md") {
		t.Errorf("reference = %q", ref.Text())
	}
	var kinds []string
	for _, item := range manifest.GetItems() {
		kinds = append(kinds, item.GetKind())
	}
	if got, want := strings.Join(kinds, " "), "base_prompt project_rules skills subagents conversation runtime knowledge memory tools"; got != want {
		t.Errorf("manifest = %s, want %s", got, want)
	}
}

func TestCompileIsAPureFunction(t *testing.T) {
	_, a := compile(t, input())
	_, b := compile(t, input())
	changed := input()
	changed.Definition.Memory.Text += "- more\n"
	_, c := compile(t, changed)
	if a.GetPromptSha256() != b.GetPromptSha256() || a.GetPromptSha256() == c.GetPromptSha256() || len(a.GetPromptSha256()) != 64 {
		t.Errorf("hashes: %s, %s, changed %s", a.GetPromptSha256(), b.GetPromptSha256(), c.GetPromptSha256())
	}
}

func TestMemoryIsCutAtALineWithANotice(t *testing.T) {
	in := input()
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "- fact number %d has some words behind it\n", i)
	}
	in.Definition.Memory.Text = lines.String()
	req, manifest := compile(t, in)
	ref := req.Messages[len(req.Messages)-1].Text()
	if !strings.Contains(ref, "fact number 0 ") || strings.Contains(ref, "fact number 1999 ") {
		t.Error("the cut is not at the end")
	}
	for line := range strings.Lines(ref) {
		if strings.HasPrefix(line, "- fact") && !strings.HasSuffix(line, "behind it\n") {
			t.Errorf("a line is cut: %q", line)
		}
	}
	if !strings.Contains(ref, "lines are left out: use memory_search") {
		t.Error("nothing says that lines are left out")
	}
	if got := Tokens(ref); got > MaterialTokens {
		t.Errorf("reference has %d tokens, the budget is %d", got, MaterialTokens)
	}
	for _, item := range manifest.GetItems() {
		if item.GetKind() == "memory" && !item.GetDropped() {
			t.Error("the manifest does not say that memory was cut")
		}
	}
}

func TestAdditionalFilesAreNeverDropped(t *testing.T) {
	in := input()
	in.Definition.Additional = []definition.Text{{Path: "rules.md", Text: strings.Repeat("word ", 40000)}}
	in.Window = 200000
	req, _ := compile(t, in)
	if ref := req.Messages[len(req.Messages)-1].Text(); strings.Count(ref, "word ") != 40000 || strings.Contains(ref, "badge") {
		t.Error("the required file must stay whole and memory must go")
	}
}

func TestTooLargeIsRefusedNotSent(t *testing.T) {
	in := input()
	in.Window = 4000
	in.Conversation = []*threadv1.Message{text(threadv1.Role_ROLE_USER, strings.Repeat("word ", 10000))}
	if _, _, err := Compile(in); errdefs.ReasonOf(err) != "CONTEXT_OVERFLOW" {
		t.Errorf("err = %v, want CONTEXT_OVERFLOW", err)
	}
}

func TestBrokenPairsAreRefusedNotRepaired(t *testing.T) {
	in := input()
	call := &threadv1.Message{Role: threadv1.Role_ROLE_ASSISTANT, Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_ToolCall{ToolCall: &threadv1.ToolCall{Id: "a", Name: "read_file", ArgumentsJson: "{}"}}}}}
	in.Conversation = append(in.Conversation, call)
	if _, _, err := Compile(in); err == nil {
		t.Error("a call without a result was sent")
	}
}

func TestFinalRequestHasNoTools(t *testing.T) {
	in := input()
	in.Final = true
	req, _ := compile(t, in)
	if len(req.Tools) != 0 || strings.Contains(req.System, "load_skill") || !strings.Contains(req.Messages[1].Text(), "limit of this run") {
		t.Errorf("tools %d, state %q", len(req.Tools), req.Messages[1].Text())
	}
}

func TestSubagentPromptStandsInPlaceOfTheRules(t *testing.T) {
	in := input()
	in.Subagent = &definition.Subagent{ID: "critic", Prompt: "Find faults."}
	req, _ := compile(t, in)
	if strings.Contains(req.System, "Be brief.") || !strings.Contains(req.System, "Find faults.") {
		t.Errorf("system = %q", req.System)
	}
}

func TestInputLimit(t *testing.T) {
	for window, want := range map[int]int{0: 64000 - 4096 - 1280, 8000: 8000 - 1000 - 160, 200000: 200000 - 4096 - 4000} {
		if got := InputLimit(window); got != want {
			t.Errorf("InputLimit(%d) = %d, want %d", window, got, want)
		}
	}
}

func TestTokensCountsWideScriptsOneByOne(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abcd": 1, "abcde": 2, "数据库": 3, "Größe": 2} {
		if got := Tokens(s); got != want {
			t.Errorf("Tokens(%q) = %d, want %d", s, got, want)
		}
	}
}
