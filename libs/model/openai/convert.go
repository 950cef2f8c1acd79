package openai

import (
	"encoding/base64"
	"encoding/json"

	"github.com/gantry-agents/gantry/libs/model"
)

// message is one entry of the conversation on the wire.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // text, a list of parts, or null beside tool calls
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// chatRequest writes a request in the terms of the wire. It is a map, since one field's name is a setting and most others
// must be absent when they are not set.
func (p *Provider) chatRequest(req model.Request) (map[string]any, error) {
	out := map[string]any{"model": req.Model, "stream": true}
	if !p.config.NoStreamOptions {
		out["stream_options"] = map[string]any{"include_usage": true}
	}
	if req.Temperature != nil {
		out["temperature"] = *req.Temperature
	}
	if req.TopP != nil {
		out["top_p"] = *req.TopP
	}
	if req.Seed != nil {
		out["seed"] = *req.Seed
	}
	if req.MaxTokens > 0 {
		out[p.config.MaxTokensField] = req.MaxTokens
	}
	if len(req.Stop) > 0 {
		out["stop"] = req.Stop
	}
	if req.Think != "" {
		out["reasoning_effort"] = req.Think
	}
	if len(req.ResponseSchema) > 0 {
		out["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": req.ResponseSchema}}
	}
	if tools := toolSpecs(req); len(tools) > 0 {
		out["tools"] = tools
		if choice := toolChoice(req.ToolChoice); choice != nil {
			out["tool_choice"] = choice
		}
	}
	var messages []message
	if req.System != "" {
		messages = append(messages, message{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		messages = append(messages, convert(m)...)
	}
	out["messages"] = messages
	return out, nil
}

// toolSpecs are the offered tools. When none may be called none are shown: not every server obeys a choice of "none".
func toolSpecs(req model.Request) []any {
	if req.ToolChoice == model.ToolChoiceNone {
		return nil
	}
	var out []any
	for _, t := range req.Tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, map[string]any{"type": "function", "function": map[string]any{"name": t.Name, "description": t.Description, "parameters": schema}})
	}
	return out
}

func toolChoice(c model.ToolChoice) any {
	switch c {
	case model.ToolChoiceAuto:
		return nil
	case model.ToolChoiceRequired:
		return "required"
	}
	return map[string]any{"type": "function", "function": map[string]any{"name": string(c)}}
}

// convert says what m says in messages of the wire: one, or one for each tool result. Thinking is not sent back: the
// format has no place for it.
func convert(m model.Message) []message {
	if m.Role == model.RoleTool {
		var out []message
		for _, b := range m.Blocks {
			content := b.ToolResult.Content
			if b.ToolResult.IsError {
				content = "Error: " + content // the format has no field for it
			}
			out = append(out, message{Role: "tool", Content: content, ToolCallID: b.ToolResult.CallID})
		}
		return out
	}
	out := message{Role: string(m.Role), Content: m.Text()}
	var parts []any
	images := false
	for _, b := range m.Blocks {
		switch b.Type {
		case model.BlockText:
			parts = append(parts, map[string]any{"type": "text", "text": b.Text})
		case model.BlockImage:
			images = true
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": imageURL(*b.Image)}})
		case model.BlockToolCall:
			out.ToolCalls = append(out.ToolCalls, toolCall{b.ToolCall.ID, "function", functionCall{b.ToolCall.Name, string(b.ToolCall.Arguments)}})
		}
	}
	if images {
		out.Content = parts
	}
	if len(out.ToolCalls) > 0 && out.Content == "" {
		out.Content = nil
	}
	return []message{out}
}

func imageURL(i model.Image) string {
	if i.URL != "" {
		return i.URL
	}
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}
