package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/mcp"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/prompt"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tools"
)

// Kit implements [run.Kit].
type Kit struct {
	definition *definition.Definition
	call       *orchestratorv1.RunInput
	facts      run.Facts
	subagent   *definition.Subagent
	policy     policy.Policy
	mode       orchestratorv1.FilesystemMode
	now        func() time.Time

	byName  map[string]tool.Tool
	specs   []tool.Spec
	names   []string
	removed []tools.Removed
	unknown []string
	// remoteProblems are what is wrong with MCP servers.
	remoteProblems []mcp.Problem
}

var _ run.Kit = (*Kit)(nil)

func (k *Kit) setTools(env tools.Env) {
	have, removed := tools.For(env)
	k.byName, k.removed, k.unknown = map[string]tool.Tool{}, removed, tools.UnknownEntries(env)
	for _, t := range have {
		spec := t.Spec()
		k.byName[spec.Name] = t
		k.specs = append(k.specs, spec)
		k.names = append(k.names, spec.Name)
	}
}

// Definition is the agent's.
func (k *Kit) Definition() *definition.Definition { return k.definition }

// Specs are those of the tools, ordered by name.
func (k *Kit) Specs() []tool.Spec { return k.specs }

// Removed are the tools that the run does not have.
func (k *Kit) Removed() []tools.Removed { return k.removed }

// Unknown are entries of lists that name no tool.
func (k *Kit) Unknown() []string { return k.unknown }

// Tool implements [run.Kit].
func (k *Kit) Tool(name string) (tool.Tool, bool) { t, ok := k.byName[name]; return t, ok }

// ToolNames implements [run.Kit].
func (k *Kit) ToolNames() []string { return k.names }

// Revision implements [run.Kit].
func (k *Kit) Revision() string { return k.definition.Revision }

// Settings implements [run.Kit]: the call's go before the subagent's, and those before the agent's; budgets add up to the stricter.
func (k *Kit) Settings() loop.Settings {
	def, spec := k.definition.Spec, k.call.GetSpec()
	s := loop.Settings{MaxSteps: int(def.GetMaxSteps()), Structured: k.call.GetOutputSchema() != nil}
	if k.subagent != nil && k.subagent.Steps > 0 {
		s.MaxSteps = k.subagent.Steps
	}
	if n := int(spec.GetMaxSteps()); n > 0 {
		s.MaxSteps = n
	}
	if s.MaxSteps <= 0 {
		s.MaxSteps = loop.DefaultMaxSteps
	}
	s.UnknownOutcome = k.unknownOutcome()
	for _, b := range []*orchestratorv1.Budget{def.GetBudget(), spec.GetBudget()} {
		s.Tokens = stricter(s.Tokens, b.GetTokens())
		s.CostMicros = stricter(s.CostMicros, b.GetCostMicros())
		s.WallTimeMillis = stricter(s.WallTimeMillis, b.GetWallTime().AsDuration().Milliseconds())
		s.Children = int(stricter(int64(s.Children), int64(b.GetChildren())))
	}
	return s
}

// unknownOutcome is what follows when nobody knows whether a call took place: the call's setting goes before the parent's, and that before the agent's.
func (k *Kit) unknownOutcome() string {
	parent := ""
	if c := k.facts.Child; c != nil {
		parent = c.UnknownOutcome
	}
	return cmp.Or(k.call.GetSpec().GetUnknownOutcome(), parent, k.definition.Spec.GetUnknownOutcome())
}

// servers are the MCP servers of the run: the template's, and those of a call that may define agents, which was checked when it came in.
func (k *Kit) servers() []definition.Server {
	var servers []definition.Server
	if !k.disabled()["tools_config"] {
		servers = k.definition.Tools.Servers
	}
	own, _ := definition.ParseServers(k.call.GetSpec().GetMcpServers())
	return definition.MergeServers(servers, own)
}

// stricter is the smaller bound; 0 is none.
func stricter(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Models implements [run.Kit].
func (k *Kit) Models() (name, fallback string) {
	def, spec := k.definition.Spec, k.call.GetSpec()
	candidates := []string{spec.GetModel()}
	if k.subagent != nil {
		candidates = append(candidates, k.subagent.Model)
	}
	if k.facts.Child != nil {
		candidates = append(candidates, k.facts.Child.Model)
	}
	for _, c := range append(candidates, def.GetModel()) {
		if c != "" {
			name = c
			break
		}
	}
	if fallback = spec.GetFallbackModel(); fallback == "" {
		fallback = def.GetFallbackModel()
	}
	return name, fallback
}

// Policy implements [run.Kit].
func (k *Kit) Policy(t *loop.Thread) policy.Policy {
	p := k.policy
	p.Planning = p.Planning || t.Planning
	for _, line := range t.Rules {
		if r, err := policy.ParseRule(line); err == nil { // checked when it was journaled
			p.Rules = append(slices.Clip(p.Rules), r)
		}
	}
	if m, ok := policy.ParseMode(t.Mode); ok && t.Mode != "" {
		p.Mode = m
	}
	return p
}

// Compaction implements [run.Kit].
func (k *Kit) Compaction() run.Compaction {
	fields := k.definition.Spec.GetSettings().GetFields()["compaction"].GetStructValue().GetFields()
	number := func(name string) int { return int(fields[name].GetNumberValue()) }
	return run.Compaction{Messages: number("trigger_messages"), ReserveTokens: number("reserve_tokens"), KeepMessages: number("keep_messages")}
}

// Notices implements [run.Kit].
func (k *Kit) Notices() []*threadv1.NoticeShown {
	var out []*threadv1.NoticeShown
	for _, p := range k.definition.Problems {
		out = append(out, &threadv1.NoticeShown{Severity: "warning", Reason: "DEFINITION_PROBLEM", Text: p.GetProblem(), Path: p.GetPath()})
	}
	for _, p := range k.remoteProblems {
		out = append(out, &threadv1.NoticeShown{Severity: "warning", Reason: p.Reason, Text: p.Text})
	}
	if len(k.unknown) > 0 {
		out = append(out, &threadv1.NoticeShown{Severity: "warning", Reason: "TOOL_ENTRY_UNKNOWN", Text: "Entries of tool lists that name no tool: " + joined(k.unknown)})
	}
	return out[:min(len(out), maxNotices)]
}

// maxNotices bounds what one run says about its definition.
const maxNotices = 20

// Compile implements [run.Kit].
func (k *Kit) Compile(_ context.Context, in run.Compile) (model.Request, *threadv1.RequestPrepared, error) {
	conversation := in.Thread.Messages()
	if in.Input != nil {
		conversation = append(conversation, in.Input)
	}
	started := k.now()
	if in.Run != nil {
		started = in.Run.StartTime // the same prompt whenever it is compiled
	}
	req, manifest, err := prompt.Compile(prompt.Input{
		Definition: k.definition, Spec: k.call.GetSpec(), Conversation: conversation, Tools: k.specs, Window: in.Model.ContextTokens, Subagent: k.subagent,
		Final: in.Final, Disabled: k.disabled(), Environment: k.environment(started),
		State: prompt.State{Planning: in.Thread.Planning || k.policy.Planning, PlanPath: in.Thread.PlanPath, Todos: in.Thread.Todos, Tasks: openTasks(in.Thread)},
	})
	if err != nil {
		return req, manifest, err
	}
	if k.subagent != nil && k.subagent.TopP != nil && req.TopP == nil {
		req.TopP = k.subagent.TopP
	}
	if schema := k.call.GetOutputSchema(); schema != nil {
		text, err := schema.MarshalJSON()
		if err != nil {
			return req, nil, err
		}
		req.System += "\n\nYour final answer, the one without tool calls, must be one JSON object of this schema and nothing else:\n" + string(text)
		if len(req.Tools) == 0 {
			req.ResponseSchema = text
		}
		manifest.PromptSha256 = prompt.Hash(req)
	}
	return req, manifest, nil
}

func openTasks(t *loop.Thread) []*threadv1.TaskStarted {
	var out []*threadv1.TaskStarted
	for _, task := range t.Tasks {
		if !task.Ended {
			out = append(out, task.Started)
		}
	}
	return out
}

func (k *Kit) disabled() map[string]bool {
	out := map[string]bool{}
	for _, part := range append(slices.Clone(k.definition.Spec.GetDisable()), k.call.GetSpec().GetDisable()...) {
		out[part] = true
	}
	return out
}

// environment is what the model should know of where it works. The day and not the minute: it must not spoil the provider's cache.
func (k *Kit) environment(at time.Time) []string {
	lines := []string{"date: " + at.UTC().Format("Monday, 2 January 2006") + " (UTC)", "agent: " + k.definition.Agent}
	switch k.mode {
	case orchestratorv1.FilesystemMode_FILESYSTEM_MODE_SANDBOX:
		lines = append(lines, "files: a workspace; commands run in an isolated sandbox that sees it")
	default:
		lines = append(lines, "files: a workspace; paths are relative to its root")
	}
	return lines
}

// WithTexts is the kit with other texts in place of those of the definition, by path.
func (k *Kit) WithTexts(texts map[string]definition.Text) *Kit {
	swap := func(t definition.Text) definition.Text {
		if other, ok := texts[t.Path]; ok {
			return other
		}
		return t
	}
	out, d := *k, *k.definition
	d.Instructions, d.Memory, d.Knowledge = swap(d.Instructions), swap(d.Memory), swap(d.Knowledge)
	d.Additional = slices.Clone(d.Additional)
	for i, t := range d.Additional {
		d.Additional[i] = swap(t)
	}
	out.definition = &d
	return &out
}

// Texts are those of the definition that have a revision.
func (k *Kit) Texts() []definition.Text {
	return append([]definition.Text{k.definition.Instructions, k.definition.Memory, k.definition.Knowledge}, k.definition.Additional...)
}

// Place implements [run.Kit].
func (k *Kit) Place() string { return k.mode.String() }

// filesystem is where the run's file tools go.
func (k *Kit) filesystem() (orchestratorv1.FilesystemMode, string) {
	if address := k.definition.Spec.GetFilesystemAddress(); address != "" {
		return 0, address
	}
	mode := k.definition.Spec.GetFilesystemMode()
	if m := k.call.GetSpec().GetFilesystemMode(); m != 0 {
		mode = m
	}
	k.mode = mode
	return mode, k.call.GetSpec().GetFilesystemAddress()
}

// state is what tools see of the run.
func (k *Kit) state() tools.State {
	if k.facts.State == nil {
		return tools.State{Planning: k.policy.Planning}
	}
	planning, _ := k.facts.State.Planning()
	out := tools.State{Planning: planning || k.policy.Planning, Todos: k.facts.State.Todos()}
	for _, t := range k.facts.State.Tasks() {
		out.Children = append(out.Children, tools.Child{
			TaskID: t.Started.GetTaskId(), Agent: t.Started.GetAgent(), Label: t.Started.GetLabel(), Thread: run.ThreadOf(t.Started.GetChildThread()), Ended: t.Ended,
		})
	}
	return out
}

// delegate makes the data of a child's task: this run's ceilings, which the worker holds the child to.
func (k *Kit) delegate(sub definition.Subagent, label string) (*structpb.Struct, error) {
	depth := 1
	if k.facts.Child != nil {
		depth = k.facts.Child.Depth + 1
	}
	state := k.state()
	p := k.policy
	c := run.Child{
		ParentRunID: k.facts.RunID, Subagent: sub.ID, Label: label, Depth: depth, Tools: k.names, Mode: string(p.Mode), Planning: state.Planning, Shared: sub.Shared,
	}
	for _, r := range p.Rules {
		if r.Verdict != policy.Allow {
			c.Rules = append(c.Rules, r.String())
		}
	}
	c.Model, _ = k.Models()
	c.UnknownOutcome = k.unknownOutcome()
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, out.UnmarshalJSON(raw)
}
