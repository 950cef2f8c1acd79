package offline

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/model"
)

// tool is an offered tool with its schema read as far as the rules need it.
type tool struct {
	name     string
	props    map[string]property
	required []string
	closed   bool // the schema was given, so no other property may be made up
}

type property struct {
	Type       any                 `json:"type"` // a word or a list of words
	Items      *property           `json:"items"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
	Enum       []any               `json:"enum"`
	Default    any                 `json:"default"`
}

// is says whether the property takes values of the type.
func (p property) is(kind string) bool {
	switch t := p.Type.(type) {
	case string:
		return t == kind
	case []any:
		return slices.Contains(t, any(kind))
	}
	return false
}

// toolset is what the request offers.
type toolset map[string]tool

func readTools(specs []model.ToolSpec) toolset {
	set := toolset{}
	for _, s := range specs {
		var p property
		if len(s.Schema) > 0 && json.Unmarshal(s.Schema, &p) != nil {
			p = property{}
		}
		set[s.Name] = tool{name: s.Name, props: p.Properties, required: p.Required, closed: len(p.Properties) > 0}
	}
	return set
}

// find returns the first tool of these names that is offered.
func (s toolset) find(names ...string) (tool, bool) {
	for _, name := range names {
		if t, ok := s[name]; ok {
			return t, true
		}
	}
	return tool{}, false
}

// The tools that can do what a verb needs: Gantry's own name first, then names that others give to the same thing.
var (
	readTool       = []string{"read_file", "read", "file_read", "cat"}
	writeTool      = []string{"write_file", "write", "file_write", "create_file"}
	editTool       = []string{"edit_file", "edit", "file_edit", "str_replace"}
	appendTool     = []string{"append_file", "append"}
	listTool       = []string{"list_files", "ls", "list_directory", "list"}
	globTool       = []string{"glob_files", "glob", "find_files"}
	grepTool       = []string{"grep_files", "grep", "search_files"}
	moveTool       = []string{"move_file", "move", "rename_file"}
	deleteTool     = []string{"delete_file", "delete", "remove_file"}
	runTool        = []string{"execute", "bash", "shell", "run_command"}
	saveTool       = []string{"memory_save"}
	searchTool     = []string{"memory_search"}
	memoryTool     = []string{"memory_get"}
	threadTool     = []string{"thread_search", "session_search"}
	threadListTool = []string{"thread_list", "session_list"}
	spawnTool      = []string{"agent_spawn"}
	agentListTool  = []string{"agent_list"}
	taskListTool   = []string{"task_list"}
	taskOutputTool = []string{"task_output"}
	taskWaitTool   = []string{"task_wait"}
	taskCancelTool = []string{"task_cancel"}
	todoTool       = []string{"todo_write"}
	askTool        = []string{"ask_user"}
	skillTool      = []string{"load_skill_through_path"}
	fetchTool      = []string{"web_fetch"}
)

// arg is a value for a property that schemas call by one of several names.
type arg struct {
	names    []string
	value    any
	optional bool // left out when the schema has no such property
}

func need(value any, names ...string) arg  { return arg{names: names, value: value} }
func maybe(value any, names ...string) arg { return arg{names: names, value: value, optional: true} }

// bind makes the arguments of a call. clause fills a property that wants the call explained. The second result names what
// the schema demands and the rules cannot give.
func (t tool) bind(clause string, args ...arg) (json.RawMessage, string) {
	out := map[string]any{}
	for _, a := range args {
		name, ok := t.property(a.names)
		if !ok {
			if a.optional {
				continue
			}
			if name, ok = t.onlyMissing(out); !ok {
				return nil, a.names[0]
			}
		}
		out[name] = t.props[name].convert(a.value)
	}
	for _, name := range t.required {
		if _, ok := out[name]; ok {
			continue
		}
		p := t.props[name]
		switch {
		case p.Default != nil:
			out[name] = p.Default
		case slices.Contains([]string{"description", "reason", "explanation", "purpose", "title", "label"}, name):
			out[name] = clause
		default:
			return nil, name
		}
	}
	raw, err := marshal(out)
	if err != nil {
		return nil, "arguments"
	}
	return raw, ""
}

// property finds the schema's name for a value: one of the names, whatever its case and underscores. Without a schema the
// first name is taken.
func (t tool) property(names []string) (string, bool) {
	if !t.closed {
		return names[0], true
	}
	for _, want := range names {
		for name := range t.props {
			if fold(name) == fold(want) {
				return name, true
			}
		}
	}
	return "", false
}

// onlyMissing is the one required text that has no value yet.
func (t tool) onlyMissing(have map[string]any) (string, bool) {
	found := ""
	for _, name := range t.required {
		if _, ok := have[name]; ok || !t.props[name].is("string") {
			continue
		}
		if found != "" {
			return "", false
		}
		found = name
	}
	return found, found != ""
}

// convert fits a value to the property's type where that loses nothing.
func (p property) convert(v any) any {
	switch v := v.(type) {
	case string:
		switch {
		case p.is("array"):
			return []any{p.Items.or().convert(v)}
		case p.is("string") || p.Type == nil:
			return v
		case p.is("integer") || p.is("number"):
			if n, err := strconv.ParseFloat(v, 64); err == nil {
				return n
			}
		case p.is("boolean"):
			if b, err := strconv.ParseBool(v); err == nil {
				return b
			}
		}
	case int:
		if p.is("string") {
			return strconv.Itoa(v)
		}
	case []string:
		if p.is("string") {
			return strings.Join(v, "\n")
		}
	}
	return v
}

func (p *property) or() property {
	if p == nil {
		return property{}
	}
	return *p
}

// object fills an object of a list from the values that its properties have names for.
func (p property) object(values map[string]any) map[string]any {
	out := map[string]any{}
	for name := range p.Properties {
		if v, ok := values[fold(name)]; ok {
			out[name] = p.Properties[name].convert(v)
		}
	}
	return out
}

// marshal is JSON without the escapes that are meant for HTML: tools' logs are read by people.
func marshal(v any) (json.RawMessage, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return json.RawMessage(strings.TrimSpace(b.String())), nil
}
