package model

import (
	"encoding/json"
	"strings"
)

// Role says who a message comes from.
type Role string

// The roles of a conversation. The system text is a field of the request and not a message, so that no provider has to
// guess where it belongs.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool" // holds tool results and nothing else
)

// BlockType discriminates the parts of a message.
type BlockType string

// The types of blocks.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking"
	BlockImage      BlockType = "image"
	BlockToolCall   BlockType = "tool_call"
	BlockToolResult BlockType = "tool_result"
)

// Message is one entry of the conversation: blocks in the order in which they were said.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
	// Origin says where a message comes from that Gantry wrote in somebody's place; empty when the role itself said it.
	// Models do not see it.
	Origin Origin `json:"origin,omitempty"`
}

// Origin is the source of a synthetic message.
type Origin string

// The origins.
const (
	OriginRuntimeState Origin = "runtime_state" // tasks and modes as they are now
	OriginReference    Origin = "reference"     // memory, knowledge and other material without authority
	OriginSummary      Origin = "summary"       // what a compaction left of older messages
	OriginSteer        Origin = "steer"         // a word of the user during a run: an instruction like any other
	OriginInject       Origin = "inject"        // what the user gave a run to know: material, no instruction
	OriginReminder     Origin = "reminder"      // a word of Gantry to the model
	OriginTaskResult   Origin = "task_result"   // the outcome of background work
)

// Block is one part of a message. Type says which of the other fields is set; the rest are zero.
type Block struct {
	Type       BlockType   `json:"type"`
	Text       string      `json:"text,omitempty"`      // of text and thinking
	Signature  string      `json:"signature,omitempty"` // of thinking, where the provider wants it back
	Image      *Image      `json:"image,omitempty"`
	ToolCall   *ToolCall   `json:"tool_call,omitempty"`
	ToolResult *ToolResult `json:"tool_result,omitempty"`
}

// Image refers to a picture. Either Data or URL is set; providers that cannot fetch a URL refuse it as a bad request.
type Image struct {
	MediaType string `json:"media_type"` // "image/png", "image/jpeg", …
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// ToolCall is the model's wish to have a tool called.
type ToolCall struct {
	// ID pairs the call with its result; providers that get none from their server make one that is unique in practice.
	// It has no meaning elsewhere: effects are never keyed by it.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the JSON text that the model produced, "{}" when it produced none. It may be malformed: models do
	// that, and the answer to it is a tool result that says so.
	Arguments json.RawMessage `json:"arguments"`
}

// ToolResult answers one tool call.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

// Text makes a text block.
func Text(text string) Block { return Block{Type: BlockText, Text: text} }

// Thinking makes a block of the model's reasoning.
func Thinking(text string) Block { return Block{Type: BlockThinking, Text: text} }

// Call makes a tool call block. Empty arguments become "{}".
func Call(id, name string, arguments json.RawMessage) Block {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return Block{Type: BlockToolCall, ToolCall: &ToolCall{ID: id, Name: name, Arguments: arguments}}
}

// Result makes a tool result block.
func Result(callID, name, content string, isError bool) Block {
	return Block{Type: BlockToolResult, ToolResult: &ToolResult{CallID: callID, Name: name, Content: content, IsError: isError}}
}

// User makes a message of the user.
func User(text string) Message { return Message{Role: RoleUser, Blocks: []Block{Text(text)}} }

// Assistant makes a message of the model.
func Assistant(blocks ...Block) Message { return Message{Role: RoleAssistant, Blocks: blocks} }

// ToolResults makes the message that answers the tool calls of one step.
func ToolResults(results ...Block) Message { return Message{Role: RoleTool, Blocks: results} }

// Text joins the text blocks of the message; thinking is left out.
func (m Message) Text() string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Type == BlockText {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// Thinking joins the thinking blocks of the message.
func (m Message) Thinking() string {
	var b strings.Builder
	for _, block := range m.Blocks {
		if block.Type == BlockThinking {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// ToolCalls lists the tool calls of the message in order.
func (m Message) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, block := range m.Blocks {
		if block.Type == BlockToolCall && block.ToolCall != nil {
			calls = append(calls, *block.ToolCall)
		}
	}
	return calls
}
