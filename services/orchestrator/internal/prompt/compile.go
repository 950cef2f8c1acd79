// Package prompt compiles what is sent to a model: one system text, the conversation, the state of the run, and reference
// material, in this order, within the input limit of the model.
//
// Compilation is a pure function of its input: the same input gives the same request and the same hash, so a journal can
// be replayed against it. Every request is described by a manifest: what is in it, from where, how large, what was left out.
package prompt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Limits that hold when nothing else is said. The window of an unknown model and the reserves are those of the design.
const (
	MaterialTokens = 8000  // of workspace material in one request
	UnknownWindow  = 64000 // of a model that does not tell its window
	maxReserve     = 4096  // tokens kept for the answer
)

// Input is what a request is made from.
type Input struct {
	Definition   *definition.Definition
	Spec         *orchestratorv1.AgentSpec // of the call; may be nil
	Conversation []*threadv1.Message
	Tools        []tool.Spec
	State        State
	Model        string // as shown in the manifest
	Window       int    // tokens of the model's window; 0: unknown
	// Subagent is set in a child run: its prompt stands in place of AGENTS.md.
	Subagent *definition.Subagent
	// Final asks for a summary without tools.
	Final bool
	// Disabled are the parts that are switched off.
	Disabled map[string]bool
	// Environment is what the model should know of where it works: lines of "name: value".
	Environment []string
}

// State is what the run's own journal says and the model must see in every request, compacted or not.
type State struct {
	Planning bool
	PlanPath string
	Todos    []*threadv1.TodoItem
	Tasks    []*threadv1.TaskStarted
}

// Compile makes the request. CONTEXT_OVERFLOW when it is too large after everything that may be dropped was dropped.
func Compile(in Input) (model.Request, *threadv1.RequestPrepared, error) {
	limit := InputLimit(in.Window)
	system, items := systemText(in)
	conversation, err := messages(in.Conversation)
	if err != nil {
		return model.Request{}, nil, err
	}
	specs := toolSpecs(in)
	fixed := Tokens(system) + conversationTokens(conversation) + toolTokens(specs)
	items = append(items, &threadv1.ContextItem{Kind: "conversation", Tokens: int32(conversationTokens(conversation))})
	if state := stateText(in.State, in.Final); state != "" {
		conversation = append(conversation, model.Message{Role: model.RoleUser, Origin: model.OriginRuntimeState, Blocks: []model.Block{model.Text(state)}})
		fixed += Tokens(state)
		items = append(items, &threadv1.ContextItem{Kind: "runtime", Tokens: int32(Tokens(state))})
	}
	text, material := reference(in, limit-fixed)
	items = append(items, material...)
	if text != "" {
		conversation = append(conversation, model.Message{Role: model.RoleUser, Origin: model.OriginReference, Blocks: []model.Block{model.Text(text)}})
	}
	items = append(items, &threadv1.ContextItem{Kind: "tools", Tokens: int32(toolTokens(specs))})
	total := fixed + Tokens(text)
	if total > limit {
		return model.Request{}, nil, errdefs.New(errdefs.ErrOutOfRange, definition.Domain, "CONTEXT_OVERFLOW",
			"the request has about %d tokens and the model takes %d: compact the thread or use a model with a larger window", total, limit)
	}
	req := model.Request{System: system, Messages: conversation, Tools: specs, ContextTokens: in.Window,
		Temperature: pick(in.Spec.GetTemperature, in.Spec != nil && in.Spec.Temperature != nil, in.Definition.Spec)}
	if in.Subagent != nil && in.Subagent.Temperature != nil {
		req.Temperature = in.Subagent.Temperature
	}
	if err := req.Validate(); err != nil {
		return model.Request{}, nil, err
	}
	return req, &threadv1.RequestPrepared{
		Items: items, Tokens: int32(total), LimitTokens: int32(limit), PromptSha256: Hash(req), Tools: names(specs), Model: in.Model,
	}, nil
}

func pick(of func() float64, set bool, spec *orchestratorv1.AgentSpec) *float64 {
	if set {
		t := of()
		return &t
	}
	return spec.Temperature
}

// InputLimit is what a request may have of a window: less the reserve for the answer, min(4096, window/8), and 2 % for the
// error of the estimate.
func InputLimit(window int) int {
	window = cmp.Or(window, UnknownWindow)
	return window - min(maxReserve, window/8) - window/50
}

// Hash is the SHA-256 of the request in canonical form, in lower-case hex.
func Hash(req model.Request) string {
	text, err := json.Marshal(req)
	if err != nil {
		return "" // a request holds nothing that JSON can't
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func names(specs []model.ToolSpec) []string {
	out := make([]string, len(specs))
	for i, s := range specs {
		out[i] = s.Name
	}
	return out
}

func toolSpecs(in Input) []model.ToolSpec {
	if in.Final {
		return nil
	}
	out := make([]model.ToolSpec, len(in.Tools))
	for i, s := range in.Tools {
		out[i] = model.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema}
	}
	return out
}
