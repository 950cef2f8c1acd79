package tools

import (
	"slices"
	"strings"
	"testing"
	"time"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// full is an environment in which every family of tools exists. The clients are never called here.
func full() Env {
	return Env{
		Files: fsv1.NewFilesystemServiceClient(nil), Memory: memoryv1.NewMemoryServiceClient(nil), Threads: threadv1.NewThreadServiceClient(nil),
		Tasks: taskv1.NewTaskServiceClient(nil), Sandbox: sandboxv1.NewSandboxServiceClient(nil),
		Definition: &definition.Definition{Spec: &orchestratorv1.AgentSpec{}, Skills: []definition.Skill{{Name: "s"}}}, MaxDepth: 1,
		State: func() State { return State{} },
	}
}

func namesOf(env Env) []string {
	have, _ := For(env)
	var names []string
	for _, t := range have {
		names = append(names, t.Spec().Name)
	}
	return names
}

func TestEveryBuiltInIsThereAndDescribed(t *testing.T) {
	have, removed := For(full())
	want := []string{
		"agent_list", "agent_send", "agent_spawn", "append_file", "ask_user", "delete_file", "edit_file", "execute", "glob_files", "grep_files",
		"list_files", "load_skill_through_path", "memory_get", "memory_save", "memory_search", "move_file", "plan_enter", "plan_exit", "plan_write",
		"read_file", "task_cancel", "task_list", "task_output", "task_wait", "thread_history", "thread_list", "thread_search", "todo_write", "write_file",
	}
	if got := namesOf(full()); !slices.Equal(got, want) {
		t.Errorf("tools = %v", got)
	}
	if len(removed) != 0 {
		t.Errorf("removed = %v", removed)
	}
	for _, tl := range have {
		s := tl.Spec()
		if s.Description == "" || len(s.Schema) == 0 || s.EffectKind == "" || s.ReadOnly && s.EffectKind != tool.EffectNone {
			t.Errorf("%s does not say all about itself: %+v", s.Name, s)
		}
	}
}

func TestEveryListThatTakesToolsAwayBindsEveryTool(t *testing.T) {
	all := namesOf(full())
	for _, name := range all {
		deny := map[string]func(*Env){
			"deny in tools.json":    func(e *Env) { e.Definition.Tools.Deny = []string{name} },
			"deny_tools":            func(e *Env) { e.Spec = &orchestratorv1.AgentSpec{DenyTools: []string{name}} },
			"allow_tools":           func(e *Env) { e.Spec = &orchestratorv1.AgentSpec{AllowTools: []string{"none"}} },
			"tools of the subagent": func(e *Env) { e.Only = []string{"none"} },
		}
		for by, narrow := range deny {
			env := full()
			narrow(&env)
			if slices.Contains(namesOf(env), name) {
				t.Errorf("%s is there in spite of %s", name, by)
			}
			_, removed := For(env)
			if i := slices.IndexFunc(removed, func(r Removed) bool { return r.Spec.Name == name }); i < 0 || removed[i].By != by {
				t.Errorf("%s: nothing says that %s removed it", name, by)
			}
		}
	}
}

func TestNoListGivesBackWhatAnotherTookAway(t *testing.T) {
	env := full()
	env.Definition.Tools.Deny = []string{"execute"}
	env.Spec = &orchestratorv1.AgentSpec{AllowTools: []string{"execute"}}
	if got := namesOf(env); len(got) != 0 {
		t.Errorf("tools = %v, want none", got)
	}
}

func TestWhatHasNoServiceDoesNotExist(t *testing.T) {
	env := full()
	env.Sandbox = nil
	if slices.Contains(namesOf(env), "execute") {
		t.Error("execute exists without a sandbox")
	}
	env = full()
	env.Depth = 1
	if got := namesOf(env); slices.Contains(got, "agent_spawn") || !slices.Contains(got, "task_list") {
		t.Errorf("a leaf has %v", got)
	}
	env = full()
	env.Definition.Spec.Disable = []string{"memory_tools", "subagents"}
	for _, name := range namesOf(env) {
		if strings.HasPrefix(name, "memory_") || strings.HasPrefix(name, "thread_") || strings.HasPrefix(name, "agent_") || strings.HasPrefix(name, "task_") {
			t.Errorf("%s is switched off and there", name)
		}
	}
}

func TestUnknownEntriesAreReported(t *testing.T) {
	env := full()
	env.Definition.Tools.Deny = []string{"exec", "session_search", "execute"}
	if got := UnknownEntries(env); !slices.Equal(got, []string{"exec"}) {
		t.Errorf("unknown = %v", got)
	}
}

func TestTodos(t *testing.T) {
	for name, tt := range map[string]struct {
		in      []todoItem
		problem string
	}{
		"fine":            {[]todoItem{{"a", ""}, {"b", "in_progress"}, {"c", "completed"}}, ""},
		"two in progress": {[]todoItem{{"a", "in_progress"}, {"b", "in_progress"}}, "2 items are in progress"},
		"says nothing":    {[]todoItem{{" ", ""}}, "says nothing"},
		"unknown status":  {[]todoItem{{"a", "done"}}, `status "done"`},
		"too many":        {make([]todoItem, 101), "101 items"},
	} {
		if _, problem := todos(tt.in); !strings.Contains(problem, tt.problem) || tt.problem == "" && problem != "" {
			t.Errorf("%s: problem = %q", name, problem)
		}
	}
	items, _ := todos([]todoItem{{"a", ""}, {"b", "in_progress"}, {"c", "completed"}})
	if got, want := Todos(items), "2 open of 3:\n- [ ] a\n- [~] b\n- [x] c"; got != want {
		t.Errorf("Todos = %q, want %q", got, want)
	}
}

func TestCommandResultTellsHowItEnded(t *testing.T) {
	answer := func(exit *sandboxv1.ExecExit) *sandboxv1.RunCommandResponse {
		return &sandboxv1.RunCommandResponse{Exit: exit, Stdout: &sandboxv1.Capture{Text: "out\n"}, Stderr: &sandboxv1.Capture{Text: "err\n"}}
	}
	tests := []struct {
		name   string
		exit   *sandboxv1.ExecExit
		status threadv1.ToolStatus
		reason string
		text   string
	}{
		{"worked", &sandboxv1.ExecExit{}, threadv1.ToolStatus_TOOL_STATUS_OK, "", "exit code 0\nout\n--- stderr\nerr"},
		{"another exit code is an answer, not a fault", &sandboxv1.ExecExit{Code: 3}, threadv1.ToolStatus_TOOL_STATUS_OK, "", "exit code 3"},
		{"out of time", &sandboxv1.ExecExit{TimedOut: true, Code: 143}, threadv1.ToolStatus_TOOL_STATUS_TIMED_OUT, "TIMED_OUT", "after 2s"},
		{"not started", &sandboxv1.ExecExit{StartError: "no bash", StartReason: "COMMAND_NOT_FOUND"}, threadv1.ToolStatus_TOOL_STATUS_ERROR, "COMMAND_NOT_FOUND", "no bash"},
		{"lost", &sandboxv1.ExecExit{State: sandboxv1.ExecState_EXEC_STATE_LOST}, threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, "OUTCOME_UNKNOWN", "not known"},
		{"out of memory", &sandboxv1.ExecExit{Oom: true, Code: 137}, threadv1.ToolStatus_TOOL_STATUS_ERROR, "OUT_OF_MEMORY", "memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := commandResult(answer(tt.exit), 2*time.Second)
			if got.Status != tt.status || got.Reason != tt.reason || !strings.Contains(got.Text, tt.text) {
				t.Errorf("got %v %q %q", got.Status, got.Reason, got.Text)
			}
		})
	}
}
