package ollama

import (
	"encoding/json"

	"github.com/ollama/ollama/api"

	"github.com/gantry-agents/gantry/libs/model"
)

// chatRequest writes a request in Ollama's terms.
func (p *Provider) chatRequest(req model.Request, info model.Info) (*api.ChatRequest, error) {
	if !info.Capabilities.Chat {
		return nil, model.NewError(model.KindUnsupported, name, req.Model, "the model %q does not converse", req.Model)
	}
	stream, no := true, false
	out := &api.ChatRequest{Model: req.Model, Stream: &stream, Truncate: &no, Shift: &no, KeepAlive: p.keepAlive(), Options: p.options(), Format: req.ResponseSchema}
	out.Options["num_ctx"] = p.window(info, req.ContextTokens)
	if req.Temperature != nil {
		out.Options["temperature"] = *req.Temperature
	}
	if req.TopP != nil {
		out.Options["top_p"] = *req.TopP
	}
	if req.Seed != nil {
		out.Options["seed"] = *req.Seed
	}
	if req.MaxTokens > 0 {
		out.Options["num_predict"] = req.MaxTokens
	}
	if len(req.Stop) > 0 {
		out.Options["stop"] = req.Stop
	}
	if req.Think != "" && info.Capabilities.Thinking {
		out.Think = &api.ThinkValue{Value: req.Think}
	}
	var err error
	if out.Tools, err = tools(req, info); err != nil {
		return nil, err
	}
	if req.System != "" {
		out.Messages = append(out.Messages, api.Message{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		converted, err := messages(req.Model, m)
		if err != nil {
			return nil, err
		}
		out.Messages = append(out.Messages, converted...)
	}
	return out, nil
}

func (p *Provider) keepAlive() *api.Duration {
	if p.config.KeepAlive == 0 {
		return nil
	}
	return &api.Duration{Duration: p.config.KeepAlive}
}

func (p *Provider) options() map[string]any {
	options := map[string]any{}
	if p.config.Threads > 0 {
		options["num_thread"] = p.config.Threads
	}
	return options
}

// tools are the offered tools, within the choice.
func tools(req model.Request, info model.Info) (api.Tools, error) {
	if len(req.Tools) == 0 || req.ToolChoice == model.ToolChoiceNone {
		return nil, nil
	}
	if !info.Capabilities.Tools {
		return nil, model.NewError(model.KindUnsupported, name, req.Model, "the model %q cannot call tools", req.Model)
	}
	only := req.ToolChoice
	if only == model.ToolChoiceRequired {
		only = model.ToolChoiceAuto
	}
	var out api.Tools
	for _, t := range req.Tools {
		if only != model.ToolChoiceAuto && string(only) != t.Name {
			continue
		}
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		// The client's type for schemas is read from JSON: what it has no field for is left out.
		tool := api.Tool{Type: "function", Function: api.ToolFunction{Name: t.Name, Description: t.Description}}
		if err := json.Unmarshal(schema, &tool.Function.Parameters); err != nil {
			return nil, model.NewError(model.KindBadRequest, name, req.Model, "tool %s: the schema is not one that Ollama can take: %w", t.Name, err)
		}
		out = append(out, tool)
	}
	return out, nil
}

// messages are the messages of Ollama that say what m says: one, or one for each tool result.
func messages(modelName string, m model.Message) ([]api.Message, error) {
	if m.Role == model.RoleTool {
		var out []api.Message
		for _, b := range m.Blocks {
			content := b.ToolResult.Content
			if b.ToolResult.IsError {
				content = "Error: " + content // the format has no field for it
			}
			out = append(out, api.Message{Role: "tool", Content: content, ToolName: b.ToolResult.Name, ToolCallID: b.ToolResult.CallID})
		}
		return out, nil
	}
	out := api.Message{Role: string(m.Role), Content: m.Text(), Thinking: m.Thinking()}
	for _, b := range m.Blocks {
		switch b.Type {
		case model.BlockImage:
			if len(b.Image.Data) == 0 {
				return nil, model.NewError(model.KindBadRequest, name, modelName, "Ollama takes images as data and fetches no URL")
			}
			out.Images = append(out.Images, b.Image.Data)
		case model.BlockToolCall:
			out.ToolCalls = append(out.ToolCalls, toolCall(len(out.ToolCalls), *b.ToolCall))
		}
	}
	return []api.Message{out}, nil
}

// toolCall writes a call of the conversation. Arguments that are no JSON object are handed back under one name: the format
// knows objects only, and the model shall see what it wrote.
func toolCall(index int, c model.ToolCall) api.ToolCall {
	out := api.ToolCall{ID: c.ID, Function: api.ToolCallFunction{Index: index, Name: c.Name}}
	if json.Unmarshal(c.Arguments, &out.Function.Arguments) != nil {
		out.Function.Arguments = api.NewToolCallFunctionArguments()
		out.Function.Arguments.Set("malformed_arguments", string(c.Arguments))
	}
	return out
}
