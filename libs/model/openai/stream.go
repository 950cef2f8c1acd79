package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/gantry-agents/gantry/libs/model"
)

// chunk is one event of the wire.
type chunk struct {
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content   string      `json:"content"`
			Reasoning string      `json:"reasoning"`         // OpenRouter, vLLM
			Thinking  string      `json:"reasoning_content"` // DeepSeek, Qwen
			Refusal   string      `json:"refusal"`
			ToolCalls []callDelta `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type callDelta struct {
	Index    *int         `json:"index"`
	ID       string       `json:"id"`
	Function functionCall `json:"function"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u usage) count() model.Usage {
	return model.Usage{InputTokens: u.Prompt, OutputTokens: u.Completion, CachedInputTokens: u.Details.Cached}
}

// stream is an answer on its way. It reads the connection when it is asked to; closing ends the request's context, which
// ends a read.
type stream struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	provider string
	model    string
	body     io.ReadCloser
	close    sync.Once

	events *events
	queue  []model.Event
	calls  []string // ids by index
	finish model.FinishReason
	usage  model.Usage
	end    error // io.EOF or what went wrong, once it is known
}

func newStream(ctx context.Context, cancel context.CancelCauseFunc, provider, modelName string, body io.ReadCloser) *stream {
	return &stream{ctx: ctx, cancel: cancel, provider: provider, model: modelName, body: body, events: newEvents(body)}
}

func (s *stream) Next() (model.Event, error) {
	for len(s.queue) == 0 {
		if s.end != nil {
			return model.Event{}, s.end
		}
		s.read()
	}
	ev := s.queue[0]
	s.queue = s.queue[1:]
	return ev, nil
}

func (s *stream) Close() error {
	s.cancel(context.Canceled)
	// The error of closing a connection that is given up says nothing.
	s.close.Do(func() { _ = s.body.Close() })
	return nil
}

// read takes one event from the wire.
func (s *stream) read() {
	if s.ctx.Err() != nil {
		s.fail(context.Cause(s.ctx))
		return
	}
	data, err := s.events.next()
	switch {
	case errors.Is(err, io.EOF) || err == nil && string(data) == "[DONE]":
		s.done()
		return
	case err != nil:
		s.fail(s.broken(err))
		return
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		s.fail(model.NewError(model.KindInternal, s.provider, s.model, "an event of the answer is not JSON: %w", err))
		return
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		s.fail(wireError(s.provider, s.model, 0, c.Error))
		return
	}
	s.take(c)
}

func (s *stream) fail(err error) {
	s.end = err
	s.Close()
}

func (s *stream) broken(err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if errors.Is(err, errLongEvent) {
		return model.NewError(model.KindInternal, s.provider, s.model, "%s", err.Error())
	}
	return model.NewError(model.KindUnavailable, s.provider, s.model, "the answer broke off: %w", err)
}

// done ends the answer: counts and finish come last, although some servers send the counts after the finish.
func (s *stream) done() {
	if s.finish == "" {
		s.fail(s.broken(io.ErrUnexpectedEOF))
		return
	}
	if len(s.calls) > 0 && s.finish == model.FinishStop {
		s.finish = model.FinishToolCalls // several servers say "stop" after tool calls
	}
	usage := s.usage
	s.queue = append(s.queue, model.Event{Type: model.EventUsage, Usage: &usage}, model.Event{Type: model.EventFinish, Finish: s.finish})
	s.fail(io.EOF)
}

func (s *stream) take(c chunk) {
	if c.Usage != nil {
		s.usage = c.Usage.count()
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		s.text(model.EventThinking, choice.Delta.Thinking+choice.Delta.Reasoning)
		s.text(model.EventText, choice.Delta.Content+choice.Delta.Refusal)
		for _, d := range choice.Delta.ToolCalls {
			s.call(d)
		}
		switch choice.FinishReason {
		case "":
		case "length":
			s.finish = model.FinishLength
		case "tool_calls", "function_call":
			s.finish = model.FinishToolCalls
		case "content_filter":
			s.finish = model.FinishContentFilter
		default:
			s.finish = model.FinishStop
		}
	}
}

func (s *stream) text(t model.EventType, text string) {
	if text != "" {
		s.queue = append(s.queue, model.Event{Type: t, Text: text})
	}
}

// maxCalls bounds the tool calls of one answer.
const maxCalls = 128

// call takes a piece of a tool call. Some servers leave out the index (then a piece with a name begins a call, another
// goes on with the last one), some leave out the id.
func (s *stream) call(d callDelta) {
	index := len(s.calls) - 1
	if d.Index != nil {
		index = *d.Index
	} else if d.Function.Name != "" {
		index = len(s.calls)
	}
	if index < 0 || index > len(s.calls) || index >= maxCalls {
		s.fail(model.NewError(model.KindInternal, s.provider, s.model, "a piece of tool call %d came after %d calls", index, len(s.calls)))
		return
	}
	delta := model.ToolCallDelta{Index: index, Arguments: d.Function.Arguments}
	if index == len(s.calls) {
		if delta.ID, delta.Name = d.ID, d.Function.Name; delta.ID == "" {
			delta.ID = model.NewCallID()
		}
		s.calls = append(s.calls, delta.ID)
	}
	s.queue = append(s.queue, model.Event{Type: model.EventToolCall, ToolCall: &delta})
}
