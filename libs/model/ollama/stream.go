package ollama

import (
	"context"
	"encoding/json"
	"io"

	"github.com/ollama/ollama/api"

	"github.com/gantry-agents/gantry/libs/model"
)

// waiting is the number of events that may wait for a slow reader before the server is made to wait.
const waiting = 64

// stream is an answer on its way. A goroutine runs the client's call, which hands its pieces to a function; it ends with
// the answer, with the context, or with Close.
type stream struct {
	cancel context.CancelCauseFunc
	events chan model.Event
	err    error // set before events is closed
}

func (p *Provider) stream(ctx context.Context, modelName string, req *api.ChatRequest) *stream {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{cancel: cancel, events: make(chan model.Event, waiting)}
	go func() {
		defer close(s.events)
		defer cancel(nil)
		a := answer{ctx: ctx, events: s.events}
		err := p.client.Chat(ctx, req, a.take)
		switch {
		case a.done && err == nil:
			s.err = io.EOF
		case err != nil || ctx.Err() != nil:
			s.err = explain(ctx, modelName, err)
		default: // the client says nothing when a connection breaks
			s.err = model.NewError(model.KindUnavailable, name, modelName, "the answer broke off before its end")
		}
	}()
	return s
}

func (s *stream) Next() (model.Event, error) {
	ev, ok := <-s.events
	if !ok {
		return model.Event{}, s.err
	}
	return ev, nil
}

func (s *stream) Close() error {
	s.cancel(context.Canceled)
	return nil
}

// answer turns the pieces of an answer into events.
type answer struct {
	ctx    context.Context
	events chan<- model.Event
	calls  int
	done   bool
}

func (a *answer) take(r api.ChatResponse) error {
	if r.Message.Thinking != "" {
		if err := a.send(model.Event{Type: model.EventThinking, Text: r.Message.Thinking}); err != nil {
			return err
		}
	}
	if r.Message.Content != "" {
		if err := a.send(model.Event{Type: model.EventText, Text: r.Message.Content}); err != nil {
			return err
		}
	}
	for _, c := range r.Message.ToolCalls {
		args, err := json.Marshal(c.Function.Arguments)
		if err != nil {
			return err
		}
		if c.ID == "" {
			c.ID = model.NewCallID()
		}
		delta := model.ToolCallDelta{Index: a.calls, ID: c.ID, Name: c.Function.Name, Arguments: string(args)}
		if err := a.send(model.Event{Type: model.EventToolCall, ToolCall: &delta}); err != nil {
			return err
		}
		a.calls++
	}
	if !r.Done {
		return nil
	}
	usage := model.Usage{InputTokens: r.PromptEvalCount, OutputTokens: r.EvalCount}
	if err := a.send(model.Event{Type: model.EventUsage, Usage: &usage}); err != nil {
		return err
	}
	a.done = true
	return a.send(model.Event{Type: model.EventFinish, Finish: a.finish(r.DoneReason)})
}

func (a *answer) send(ev model.Event) error {
	select {
	case a.events <- ev:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
}

func (a *answer) finish(reason string) model.FinishReason {
	switch {
	case reason == "length":
		return model.FinishLength
	case a.calls > 0:
		return model.FinishToolCalls
	}
	return model.FinishStop
}
