package model

import (
	"encoding/json"
	"regexp"
)

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string          `json:"name"` // 1 to 64 of A-Z a-z 0-9 _ -
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON schema of the arguments, an object; empty = no arguments
}

// ToolChoice says whether the model may, must or must not call a tool.
type ToolChoice string

// The choices. Any other value names the one tool that must be called.
const (
	ToolChoiceAuto     ToolChoice = ""         // the model decides
	ToolChoiceNone     ToolChoice = "none"     // tools are shown, none may be called
	ToolChoiceRequired ToolChoice = "required" // at least one call; providers that cannot demand it degrade to auto
)

// Request is one turn for a model.
type Request struct {
	// Model is the name that the provider knows, without the provider's prefix.
	Model string `json:"model"`
	// System is the one system text, empty for none.
	System   string     `json:"system,omitempty"`
	Messages []Message  `json:"messages"`
	Tools    []ToolSpec `json:"tools,omitempty"`

	ToolChoice ToolChoice `json:"tool_choice,omitempty"`

	// Temperature nil leaves it to the provider.
	Temperature *float64 `json:"temperature,omitempty"`
	// TopP nil leaves it to the provider.
	TopP *float64 `json:"top_p,omitempty"`
	// MaxTokens bounds the answer; 0 leaves it to the provider.
	MaxTokens int `json:"max_tokens,omitempty"`
	// ContextTokens asks for a window of this size where the provider sizes it per request (Ollama); 0 = the provider's
	// configured default. It never makes a window larger than the model's own.
	ContextTokens int `json:"context_tokens,omitempty"`
	// Stop ends the answer before any of these strings.
	Stop []string `json:"stop,omitempty"`
	// ResponseSchema asks for an answer that is a JSON value of this schema. It goes with no tools.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	// Think asks for reasoning where the model can: "", "low", "medium", "high". Providers without it ignore it.
	Think string `json:"think,omitempty"`
	// Seed nil leaves sampling to the provider.
	Seed *int64 `json:"seed,omitempty"`
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate checks what every provider relies on: a conversation that ends with the user or with tool results, each call
// answered exactly once by the next message, each result for a call that was made. Nothing is repaired: a pair that is
// not whole is the caller's fault and a bad request.
func (r Request) Validate() error {
	if len(r.Messages) == 0 {
		return badRequest("the request has no messages")
	}
	for _, tool := range r.Tools {
		if !toolName.MatchString(tool.Name) {
			return badRequest("tool name %q: need 1 to 64 of A-Z a-z 0-9 _ -", tool.Name)
		}
		if len(tool.Schema) > 0 && !json.Valid(tool.Schema) {
			return badRequest("tool %s: the schema is not JSON", tool.Name)
		}
	}
	if r.MaxTokens < 0 || r.ContextTokens < 0 {
		return badRequest("token limits must not be negative")
	}
	if len(r.ResponseSchema) > 0 {
		if !json.Valid(r.ResponseSchema) {
			return badRequest("the response schema is not JSON")
		}
		if len(r.Tools) > 0 {
			return badRequest("a response schema goes with no tools")
		}
	}
	return validatePairs(r.Messages)
}

func validatePairs(messages []Message) error {
	open := map[string]bool{} // calls of the last assistant message that have no result yet
	for i, m := range messages {
		if m.Role != RoleTool && len(open) > 0 {
			return badRequest("message %d: %d tool calls before it have no result", i, len(open))
		}
		for _, b := range m.Blocks {
			if err := validateBlock(i, m.Role, b); err != nil {
				return err
			}
			switch b.Type {
			case BlockToolCall:
				if open[b.ToolCall.ID] {
					return badRequest("message %d: two tool calls have the id %q", i, b.ToolCall.ID)
				}
				open[b.ToolCall.ID] = true
			case BlockToolResult:
				if !open[b.ToolResult.CallID] {
					return badRequest("message %d: a tool result for %q, which was not called or is answered already", i, b.ToolResult.CallID)
				}
				delete(open, b.ToolResult.CallID)
			}
		}
	}
	if len(open) > 0 {
		return badRequest("%d tool calls at the end have no result", len(open))
	}
	if last := messages[len(messages)-1]; last.Role == RoleAssistant {
		return badRequest("the last message is the model's own")
	}
	return nil
}

func validateBlock(i int, role Role, b Block) error {
	ok := false
	switch b.Type {
	case BlockText:
		ok = role == RoleUser || role == RoleAssistant
	case BlockThinking:
		ok = role == RoleAssistant
	case BlockImage:
		ok = role == RoleUser && b.Image != nil && (len(b.Image.Data) > 0) != (b.Image.URL != "")
	case BlockToolCall:
		ok = role == RoleAssistant && b.ToolCall != nil && b.ToolCall.ID != "" && b.ToolCall.Name != ""
	case BlockToolResult:
		ok = role == RoleTool && b.ToolResult != nil
	}
	if !ok {
		return badRequest("message %d: a block of type %q is not complete or not allowed for role %q", i, b.Type, role)
	}
	return nil
}
