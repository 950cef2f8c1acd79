package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/model"
)

// world is a small executor of tools over files in memory.
type world struct {
	files   map[string]string
	memory  []string
	agents  map[string]string // answer of each subagent
	slow    map[string]bool   // subagents that go on as tasks
	answers map[string]string // of ask_user and of commands
	calls   []string
}

func schema(props string, required ...string) json.RawMessage {
	req, _ := json.Marshal(required)
	if required == nil {
		req = []byte("[]")
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":%s}`, props, req))
}

const str = `{"type":"string"}`

var allTools = []model.ToolSpec{
	{Name: "read_file", Schema: schema(`"path":`+str+`,"offset":{"type":"integer"},"limit":{"type":"integer"}`, "path")},
	{Name: "write_file", Schema: schema(`"path":`+str+`,"content":`+str, "path", "content")},
	{Name: "edit_file", Schema: schema(`"path":`+str+`,"old_string":`+str+`,"new_string":`+str+`,"replace_all":{"type":"boolean"}`, "path", "old_string", "new_string")},
	{Name: "append_file", Schema: schema(`"path":`+str+`,"content":`+str, "path", "content")},
	{Name: "list_files", Schema: schema(`"path":` + str)},
	{Name: "glob_files", Schema: schema(`"pattern":`+str+`,"path":`+str, "pattern")},
	{Name: "grep_files", Schema: schema(`"pattern":`+str+`,"path":`+str+`,"glob":`+str, "pattern")},
	{Name: "move_file", Schema: schema(`"source":`+str+`,"destination":`+str, "source", "destination")},
	{Name: "delete_file", Schema: schema(`"path":`+str, "path")},
	{Name: "execute", Schema: schema(`"command":`+str+`,"timeout_seconds":{"type":"integer"}`, "command")},
	{Name: "memory_save", Schema: schema(`"content":`+str, "content")},
	{Name: "memory_search", Schema: schema(`"query":`+str, "query")},
	{Name: "memory_get", Schema: schema(`"path":`+str, "path")},
	{Name: "thread_search", Schema: schema(`"query":`+str, "query")},
	{Name: "agent_spawn", Schema: schema(`"agent_id":`+str+`,"task":`+str+`,"timeout_seconds":{"type":"integer"}`, "agent_id", "task")},
	{Name: "agent_list", Schema: schema(``)},
	{Name: "task_list", Schema: schema(``)},
	{Name: "task_output", Schema: schema(`"task_id":`+str, "task_id")},
	{Name: "task_wait", Schema: schema(`"task_ids":{"type":"array","items":{"type":"string"}}`, "task_ids")},
	{Name: "task_cancel", Schema: schema(`"task_id":`+str, "task_id")},
	{Name: "todo_write", Schema: schema(`"todos":{"type":"array","items":{"type":"object","properties":{"content":{"type":"string"},"status":{"type":"string","enum":["pending","done"]}}}}`, "todos")},
	{Name: "ask_user", Schema: schema(`"question":`+str, "question")},
	{Name: "load_skill_through_path", Schema: schema(`"skill_id":`+str+`,"path":`+str, "skill_id", "path")},
	{Name: "web_fetch", Schema: schema(`"url":`+str, "url")},
	{Name: "mcp__geo__distance", Schema: schema(`"from":`+str+`,"to":`+str, "from", "to")},
}

const system = `You are a test agent.
<available_subagents>
- reviewer: reads drafts
- data-checker: checks numbers
</available_subagents>
<available_skills>
- release-notes: how to write them
</available_skills>`

func newWorld() *world {
	return &world{
		files: map[string]string{
			"notes.md": "# Notes\n\nBuy milk.\n", "a.txt": "alpha\n", "b.txt": "beta\n", "src/main.go": "package main\n", "my plan.txt": "step one\n",
			"docs/guide.md": "# Guide\n\nStart here.\n", "Makefile": "all:\n", "deep/er/only.cfg": "x=1\n",
		},
		memory:  []string{"My favourite tea is oolong", "The deploy window is Tuesday 14:00"},
		agents:  map[string]string{"reviewer": "Two risks: scope and time.", "data-checker": "All sums are right."},
		answers: map[string]string{},
	}
}

// call carries out one tool call as a service would: text for the model, and whether it failed.
func (w *world) call(name string, raw json.RawMessage) (string, bool) {
	var in map[string]any
	if err := json.Unmarshal(raw, &in); err != nil {
		return "arguments are not JSON", true
	}
	get := func(k string) string { s, _ := in[k].(string); return s }
	file, ok := w.files[get("path")]
	notFound := fmt.Sprintf("file %q not found", get("path"))
	switch name {
	case "read_file":
		if !ok {
			return notFound, true
		}
		return file, false
	case "write_file":
		w.files[get("path")] = get("content")
	case "append_file":
		w.files[get("path")] += get("content")
	case "edit_file":
		if !ok || !strings.Contains(file, get("old_string")) {
			return "old_string not found", true
		}
		w.files[get("path")] = strings.ReplaceAll(file, get("old_string"), get("new_string"))
	case "delete_file":
		if !ok {
			return notFound, true
		}
		delete(w.files, get("path"))
	case "move_file":
		w.files[get("destination")] = w.files[get("source")]
		delete(w.files, get("source"))
	case "list_files", "glob_files":
		var out []string
		for p := range w.files {
			if m, _ := path.Match(path.Base(get("pattern")), path.Base(p)); m || get("pattern") == "" {
				out = append(out, p)
			}
		}
		sort.Strings(out)
		return strings.Join(out, "\n"), false
	case "execute":
		if a, ok := w.answers[get("command")]; ok {
			return a, false
		}
		return "Exit code: 0\n\nran " + get("command") + "\n", false
	case "memory_save":
		w.memory = append(w.memory, strings.TrimPrefix(get("content"), "- "))
	case "memory_search":
		return "Found:\nSource: MEMORY.md#1: " + strings.Join(w.memory, "\nSource: MEMORY.md#2: "), false
	case "agent_spawn":
		id := get("agent_id")
		if w.slow[id] || in["timeout_seconds"] == 0.0 {
			return "agent_id: " + id + "\nstatus: timeout_promoted\ntask_id: task_7", false
		}
		if a, ok := w.agents[id]; ok {
			return "agent_id: " + id + "\nstatus: ok\nreply: " + a, false
		}
		return "unknown agent " + id, true
	case "task_output":
		return "reply: late result", false
	case "ask_user":
		return w.answers[get("question")], false
	case "load_skill_through_path":
		return "# Release notes\n\nList what changed.\n", false
	}
	return "ok", false
}

// converse drives the provider until it answers, as a loop of an agent does.
func converse(t *testing.T, w *world, req model.Request) string {
	t.Helper()
	for range 40 {
		s, err := New().Generate(context.Background(), req)
		if err != nil {
			t.Fatalf("Generate: %v", err)
		}
		r, err := model.Collect(s)
		if err != nil {
			t.Fatalf("Collect: %v", err)
		}
		req.Messages = append(req.Messages, r.Message)
		calls := r.Message.ToolCalls()
		if len(calls) == 0 {
			if r.Finish != model.FinishStop {
				t.Errorf("finish = %q, want stop", r.Finish)
			}
			return r.Message.Text()
		}
		var results []model.Block
		var names []string
		for _, c := range calls {
			text, failed := w.call(c.Name, c.Arguments)
			results = append(results, model.Result(c.ID, c.Name, text, failed))
			names = append(names, c.Name+" "+string(c.Arguments))
		}
		w.calls = append(w.calls, strings.Join(names, " & "))
		req.Messages = append(req.Messages, model.ToolResults(results...))
	}
	t.Fatalf("still calling tools after 40 steps: %q", w.calls)
	return ""
}
