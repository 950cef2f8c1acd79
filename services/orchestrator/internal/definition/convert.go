package definition

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// DefaultAgent is the id of the agent that needs no definition: an empty workspace is a general assistant.
const DefaultAgent = "default"

// fromProto reads what the workspace service found. Files are judged there as files; what they mean for a run is judged here.
func fromProto(agent string, in *workspacev1.Definition) (*Definition, error) {
	if !in.GetHasTemplate() && agent != DefaultAgent {
		return nil, errdefs.New(errdefs.ErrNotFound, Domain, "AGENT_NOT_FOUND", "there is no agent %q", agent).With("agent", agent)
	}
	d := &Definition{
		Agent: agent, Revision: in.GetFingerprint(), Spec: &orchestratorv1.AgentSpec{},
		Instructions: text(in.GetRules()), Memory: text(in.GetMemory()), Knowledge: text(in.GetKnowledge().GetMain()),
	}
	for _, f := range in.GetKnowledge().GetFiles() {
		d.KnowledgeIndex = append(d.KnowledgeIndex, Text{Path: f.GetPath(), Layer: f.GetLayer().String()})
	}
	for _, p := range in.GetProblems() {
		d.Problems = append(d.Problems, &orchestratorv1.DefinitionProblem{Path: p.GetPath(), Problem: p.GetMessage(), Line: p.GetLine(), Fatal: failsClosed(p.GetPath())})
	}
	d.settings(in.GetAgentConfig())
	d.servers(in.GetAgentConfigSource(), d.Spec.GetMcpServers())
	for _, s := range in.GetSkills() {
		d.Skills = append(d.Skills, Skill{Name: s.GetName(), Description: s.GetDescription(), Path: s.GetSource().GetPath(),
			Layer: s.GetSource().GetLayer().String(), Revision: s.GetSource().GetRevision(), Files: s.GetFiles()})
	}
	for _, s := range in.GetSubagents() {
		if sub, ok := d.subagent(s); ok {
			d.Subagents = append(d.Subagents, sub)
		}
	}
	for _, layer := range in.GetTools() {
		d.toolsLayer(layer)
	}
	return d, nil
}

// failsClosed lists the files whose errors refuse a call: what they say narrows what an agent may do.
func failsClosed(path string) bool { return path == "tools.json" || path == "agent.yaml" }

func text(item *workspacev1.TextItem) Text {
	if item == nil {
		return Text{}
	}
	s := item.GetSource()
	return Text{Path: s.GetPath(), Revision: s.GetRevision(), Layer: s.GetLayer().String(), Text: item.GetText()}
}

// settings reads agent.yaml as an AgentSpec. Names that the spec does not know are kept as free settings and reported.
func (d *Definition) settings(config *structpb.Struct) {
	if config == nil {
		return
	}
	known, free := map[string]*structpb.Value{}, map[string]*structpb.Value{}
	fields := d.Spec.ProtoReflect().Descriptor().Fields()
	for name, v := range config.GetFields() {
		if fields.ByTextName(name) != nil || fields.ByJSONName(name) != nil {
			known[name] = v
		} else {
			free[name] = v
		}
	}
	for _, name := range []string{"scope", "allowed_scopes"} {
		spell(known[name], "SCOPE_")
	}
	spell(known["filesystem_mode"], "FILESYSTEM_MODE_")
	raw, err := (&structpb.Struct{Fields: known}).MarshalJSON()
	if err == nil {
		err = protojson.Unmarshal(raw, d.Spec)
	}
	if err != nil {
		d.problem("agent.yaml", "a setting has a wrong value: "+settingProblem(err), true)
		return
	}
	if len(free) > 0 {
		d.Spec.Settings = &structpb.Struct{Fields: free}
		for name := range free {
			d.problem("agent.yaml", fmt.Sprintf("no setting is called %q", name), false)
		}
	}
}

var jsonPosition = regexp.MustCompile(`^proto:\s*|\(line [0-9:]+\):\s*`)

// settingProblem drops what a reader of agent.yaml can't use: positions in the JSON that the file was turned into.
func settingProblem(err error) string {
	return jsonPosition.ReplaceAllString(strings.ReplaceAll(err.Error(), "\u00a0", " "), "")
}

// spell turns the words of people (session, local_shell) into names of an enum, in a text or a list of texts. Names of the enum stay.
func spell(v *structpb.Value, prefix string) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		if !strings.HasPrefix(kind.StringValue, prefix) {
			kind.StringValue = prefix + strings.ToUpper(strings.ReplaceAll(kind.StringValue, "-", "_"))
		}
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			spell(item, prefix)
		}
	}
}

func (d *Definition) problem(path, problem string, fatal bool) {
	d.Problems = append(d.Problems, &orchestratorv1.DefinitionProblem{Path: path, Problem: problem, Fatal: fatal})
}

// subagent reads the front matter of a declaration. A key with a wrong value is reported and counts as not given, but for the list of tools: without it the
// subagent would have more than it was meant to have, so there is none.
func (d *Definition) subagent(in *workspacev1.Subagent) (_ Subagent, ok bool) {
	f := front{d: d, path: in.GetSource().GetPath(), fields: in.GetFrontMatter().GetFields()}
	s := Subagent{ID: in.GetId(), Description: in.GetDescription(), Prompt: strings.TrimSpace(in.GetBody()),
		Model: f.text("model"), Steps: f.count("steps", "maxIters"), Temperature: f.number("temperature"), TopP: f.number("top_p", "topP"),
		Hidden: f.flag("hidden"), Tools: f.list("tools"), Skills: f.list("skills"), Depth: min(f.count("depth"), 2)}
	switch mode := f.text("mode"); mode {
	case "", "all", "subagent":
	case "primary":
		s.Primary = true
	default:
		d.problem(f.path, fmt.Sprintf("mode %q is none of primary, subagent, all", mode), false)
	}
	workspace := front{d: d, path: f.path, fields: f.fields["workspace"].GetStructValue().GetFields()}
	switch mode := workspace.text("mode"); mode {
	case "", "isolated":
	case "shared":
		s.Shared = true
	default:
		d.problem(f.path, fmt.Sprintf("workspace.mode %q is none of isolated, shared", mode), false)
	}
	if name := f.text("name"); name != "" && name != s.ID {
		d.problem(f.path, fmt.Sprintf("its name %q is not used: the file name %q is its id", name, s.ID), false)
	}
	if _, tools := f.get([]string{"tools"}); tools != nil && len(s.Tools) == 0 {
		d.problem(f.path, "its list of tools names none, so the subagent is not offered", false)
		return s, false
	}
	return s, true
}

// front reads values of a front matter by any of their names.
type front struct {
	d      *Definition
	path   string
	fields map[string]*structpb.Value
	// closed says that a wrong value refuses the call: what it was meant to forbid is not known.
	closed bool
}

func (f front) get(names []string) (string, *structpb.Value) {
	for _, n := range names {
		if v, ok := f.fields[n]; ok {
			return n, v
		}
	}
	return "", nil
}

func (f front) wrong(name, want string) { f.d.problem(f.path, name+" is not "+want, f.closed) }

func (f front) text(names ...string) string {
	name, v := f.get(names)
	if v == nil {
		return ""
	}
	if _, ok := v.GetKind().(*structpb.Value_StringValue); !ok {
		f.wrong(name, "a text")
	}
	return v.GetStringValue()
}

func (f front) flag(names ...string) bool {
	name, v := f.get(names)
	if v == nil {
		return false
	}
	if _, ok := v.GetKind().(*structpb.Value_BoolValue); !ok {
		f.wrong(name, "true or false")
	}
	return v.GetBoolValue()
}

func (f front) number(names ...string) *float64 {
	name, v := f.get(names)
	if v == nil {
		return nil
	}
	if _, ok := v.GetKind().(*structpb.Value_NumberValue); !ok {
		f.wrong(name, "a number")
		return nil
	}
	n := v.GetNumberValue()
	return &n
}

func (f front) count(names ...string) int {
	n := f.number(names...)
	if n == nil {
		return 0
	}
	if *n != math.Trunc(*n) || *n < 0 || *n > 1000 {
		f.wrong(names[0], "a whole number from 0 to 1000")
		return 0
	}
	return int(*n)
}

// list reads a list of texts, or one text with commas.
func (f front) list(names ...string) []string {
	name, v := f.get(names)
	var out []string
	switch kind := v.GetKind().(type) {
	case nil:
	case *structpb.Value_StringValue:
		for _, part := range strings.Split(kind.StringValue, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			if item.GetStringValue() == "" {
				f.wrong(name, "a list of texts")
				return nil
			}
			out = append(out, item.GetStringValue())
		}
	default:
		f.wrong(name, "a list")
	}
	return out
}

// toolsKeys are the keys of tools.json.
var toolsKeys = []string{"allow", "deny", "mcpServers"}

// toolsLayer adds one layer's tools.json: deny lists add up, allow lists narrow each other, servers come from the template. Whatever is wrong in it
// refuses the call, a key that nobody knows included: it may be a misspelt deny.
func (d *Definition) toolsLayer(layer *workspacev1.ToolsLayer) {
	f := front{d: d, path: layer.GetSource().GetPath(), fields: layer.GetConfig().GetFields(), closed: true}
	for _, key := range slices.Sorted(maps.Keys(f.fields)) {
		if !slices.Contains(toolsKeys, key) {
			d.problem(f.path, fmt.Sprintf("no key is called %q; there are allow, deny and mcpServers", key), true)
		}
	}
	d.Tools.Deny = append(d.Tools.Deny, f.list("deny")...)
	if allow := f.list("allow"); len(allow) > 0 {
		if d.Tools.Restricted {
			d.Tools.Allow = slices.DeleteFunc(d.Tools.Allow, func(name string) bool {
				return !slices.ContainsFunc(allow, func(entry string) bool { return entry == name || Names(entry, name) })
			})
		} else {
			d.Tools.Restricted, d.Tools.Allow = true, allow
		}
	}
	if servers := f.fields["mcpServers"]; servers != nil && servers.GetStructValue() == nil {
		f.wrong("mcpServers", "an object")
	}
	d.servers(layer.GetSource(), f.fields["mcpServers"].GetStructValue())
}

// servers adds the MCP servers of a file. They come from the template alone: an agent must not give itself reach.
func (d *Definition) servers(from *workspacev1.Source, in *structpb.Struct) {
	if len(in.GetFields()) == 0 {
		return
	}
	if from.GetLayer() != fsv1.Layer_LAYER_TEMPLATE {
		d.problem(from.GetPath(), "its MCP servers are not used: only those of the agent's template are", false)
		return
	}
	servers, problems := ParseServers(in)
	for _, p := range problems {
		d.problem(from.GetPath(), p, false)
	}
	d.Tools.Servers = MergeServers(d.Tools.Servers, servers)
}

// MergeServers adds servers to a list, by name; one of a name that is there takes its place.
func MergeServers(have, more []Server) []Server {
	out := slices.DeleteFunc(slices.Clone(have), func(old Server) bool {
		return slices.ContainsFunc(more, func(s Server) bool { return s.Name == old.Name })
	})
	out = append(out, more...)
	slices.SortFunc(out, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return out
}
