package model

import (
	"encoding/json"
	"errors"
	"io"
)

// EventType discriminates the events of an answer.
type EventType string

// The types of events.
const (
	EventText     EventType = "text"      // a piece of text; pieces are whole UTF-8 characters
	EventThinking EventType = "thinking"  // a piece of the model's reasoning
	EventToolCall EventType = "tool_call" // a piece of a tool call
	EventUsage    EventType = "usage"     // token counts so far; the last one counts
	EventFinish   EventType = "finish"    // the end of the answer, exactly once, last
)

// FinishReason says why the model stopped.
type FinishReason string

// The reasons.
const (
	FinishStop          FinishReason = "stop"           // the model was done
	FinishToolCalls     FinishReason = "tool_calls"     // it waits for the results of its calls
	FinishLength        FinishReason = "length"         // the token limit or the window was reached; the text is cut
	FinishContentFilter FinishReason = "content_filter" // the provider withheld the rest
)

// Event is one piece of an answer. Type says which fields are set.
type Event struct {
	Type     EventType
	Text     string // of text and thinking
	ToolCall *ToolCallDelta
	Usage    *Usage
	Finish   FinishReason
}

// ToolCallDelta is a piece of a tool call. The first piece of an index carries ID and Name; the argument pieces of one
// index, joined, are the JSON of the call. Calls may be interleaved.
type ToolCallDelta struct {
	Index     int
	ID        string
	Name      string
	Arguments string
}

// Usage counts tokens. Zero means that the provider did not say.
type Usage struct {
	InputTokens       int `json:"input_tokens"`
	OutputTokens      int `json:"output_tokens"`
	CachedInputTokens int `json:"cached_input_tokens,omitempty"` // part of InputTokens
}

// Add sums two counts.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.InputTokens + o.InputTokens, u.OutputTokens + o.OutputTokens, u.CachedInputTokens + o.CachedInputTokens}
}

// Stream is an answer on its way.
//
// Next blocks until the next event. After the finish event it returns io.EOF, and so on for ever; any other error is final
// as well and is an *[Error] or the context's. What was received before an error stays valid. Next is called by one
// goroutine at a time.
//
// Close gives up the rest of the answer and frees what it holds; it may be called at any time, from any goroutine, and
// more than once, and it ends a Next that is blocked. A stream that was read to its end needs Close all the same.
type Stream interface {
	Next() (Event, error)
	Close() error
}

// Response is a whole answer.
type Response struct {
	Message Message
	Usage   Usage
	Finish  FinishReason // empty when the stream broke off
}

// Collect reads the stream to its end and closes it. On an error the response holds what had arrived, with tool calls
// that were complete JSON only: a call that was cut off must not be run.
func Collect(s Stream) (Response, error) {
	defer s.Close()
	var acc Accumulator
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return acc.Response(), nil
		}
		if err != nil {
			return acc.Partial(), err
		}
		acc.Add(ev)
	}
}

// Accumulator joins events into a response. The zero value is ready.
type Accumulator struct {
	blocks []Block
	calls  map[int]int // index of the call → position in blocks
	usage  Usage
	finish FinishReason
}

// Add takes the next event.
func (a *Accumulator) Add(ev Event) {
	switch ev.Type {
	case EventText:
		a.text(BlockText, ev.Text)
	case EventThinking:
		a.text(BlockThinking, ev.Text)
	case EventToolCall:
		a.toolCall(*ev.ToolCall)
	case EventUsage:
		a.usage = *ev.Usage
	case EventFinish:
		a.finish = ev.Finish
	}
}

func (a *Accumulator) text(t BlockType, text string) {
	if text == "" {
		return
	}
	if n := len(a.blocks); n > 0 && a.blocks[n-1].Type == t {
		a.blocks[n-1].Text += text
		return
	}
	a.blocks = append(a.blocks, Block{Type: t, Text: text})
}

func (a *Accumulator) toolCall(d ToolCallDelta) {
	at, ok := a.calls[d.Index]
	if !ok {
		if a.calls == nil {
			a.calls = map[int]int{}
		}
		at = len(a.blocks)
		a.calls[d.Index] = at
		a.blocks = append(a.blocks, Block{Type: BlockToolCall, ToolCall: &ToolCall{}})
	}
	c := a.blocks[at].ToolCall
	if d.ID != "" {
		c.ID = d.ID
	}
	if d.Name != "" {
		c.Name = d.Name
	}
	c.Arguments = append(c.Arguments, d.Arguments...)
}

// Response is the answer as far as it was added.
func (a *Accumulator) Response() Response {
	return a.response(func(json.RawMessage) bool { return true })
}

// Partial is the answer without the tool calls whose arguments are not whole.
func (a *Accumulator) Partial() Response {
	return a.response(func(args json.RawMessage) bool { return json.Valid(args) })
}

func (a *Accumulator) response(keep func(json.RawMessage) bool) Response {
	blocks := make([]Block, 0, len(a.blocks))
	for _, b := range a.blocks {
		if b.Type == BlockToolCall {
			if len(b.ToolCall.Arguments) > 0 && !keep(b.ToolCall.Arguments) {
				continue
			}
			if len(b.ToolCall.Arguments) == 0 && a.finish == "" {
				continue // the name had come, the arguments had not
			}
			b = Call(b.ToolCall.ID, b.ToolCall.Name, append(json.RawMessage(nil), b.ToolCall.Arguments...))
		}
		blocks = append(blocks, b)
	}
	return Response{Message: Message{Role: RoleAssistant, Blocks: blocks}, Usage: a.usage, Finish: a.finish}
}
