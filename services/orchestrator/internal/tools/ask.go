package tools

import (
	"context"
	"encoding/json"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

type askIn struct {
	Question string   `json:"question" jsonschema:"what to ask the user"`
	Choices  []string `json:"choices,omitempty" jsonschema:"answers to choose from; free text when left out"`
	Multiple bool     `json:"multiple,omitempty" jsonschema:"several choices may be taken"`
	Secret   bool     `json:"secret,omitempty" jsonschema:"the answer is a secret and will not be kept"`
}

const maxChoices = 32

func (env Env) askTools() []tool.Tool {
	return []tool.Tool{tool.Func(tool.Spec{
		Name: "ask_user", EffectKind: tool.EffectNone,
		Description: "Ask the user a question and wait for the answer. Use it only for what you can't find out yourself.",
	}, env.askUser)}
}

// askUser suspends the run; the answer becomes the result of the call.
func (env Env) askUser(_ context.Context, call tool.Call, in askIn) (tool.Result, error) {
	if len(in.Choices) > maxChoices {
		return tool.Failed("ARGUMENTS_INVALID", "There are too many choices; 32 are allowed."), nil
	}
	return tool.Result{Suspend: &threadv1.Interaction{
		Id: "ask-" + call.ID, Kind: "question", Call: protoCall(call),
		Prompt: in.Question, Choices: in.Choices, Multiple: in.Multiple, Secret: in.Secret,
	}}, nil
}

// clientTool is executed by the caller: the run suspends and goes on with the result that the caller sends.
type clientTool struct{ spec tool.Spec }

func (env Env) clientTools() []tool.Tool {
	var all []tool.Tool
	for _, c := range env.ClientTools {
		schema := json.RawMessage(`{"type":"object"}`)
		if c.GetSchema() != nil {
			if text, err := c.GetSchema().MarshalJSON(); err == nil {
				schema = text
			}
		}
		all = append(all, clientTool{tool.Spec{
			Name: "client__" + c.GetName(), Description: c.GetDescription(), Schema: schema, EffectKind: tool.EffectClient,
		}})
	}
	return all
}

func (t clientTool) Spec() tool.Spec { return t.spec }

func (t clientTool) Run(_ context.Context, call tool.Call) tool.Result {
	return tool.Result{Suspend: &threadv1.Interaction{Id: "client-" + call.ID, Kind: "client_tool", Call: protoCall(call), Prompt: t.spec.Description}}
}

func protoCall(call tool.Call) *threadv1.ToolCall {
	return &threadv1.ToolCall{Id: call.ID, Name: call.Name, ArgumentsJson: string(call.Arguments)}
}
