package model

import (
	"context"
	"io"
	"sync"
	"unicode/utf8"
)

// StreamOf is a stream of events that are all known already. It obeys ctx between events.
func StreamOf(ctx context.Context, events ...Event) Stream {
	ctx, cancel := context.WithCancelCause(ctx)
	return &known{ctx: ctx, cancel: cancel, events: events}
}

type known struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	mu     sync.Mutex
	events []Event
}

func (k *known) Next() (Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) == 0 {
		return Event{}, io.EOF
	}
	if k.ctx.Err() != nil {
		return Event{}, context.Cause(k.ctx)
	}
	ev := k.events[0]
	k.events = k.events[1:]
	return ev, nil
}

func (k *known) Close() error {
	k.cancel(context.Canceled)
	return nil
}

// EventsOf turns a whole answer into the events of a stream: text in pieces of at most size bytes that end between
// characters, each tool call as one piece.
func EventsOf(r Response, size int) []Event {
	var events []Event
	calls := 0
	for _, b := range r.Message.Blocks {
		switch b.Type {
		case BlockText, BlockThinking:
			t := EventText
			if b.Type == BlockThinking {
				t = EventThinking
			}
			for _, piece := range pieces(b.Text, size) {
				events = append(events, Event{Type: t, Text: piece})
			}
		case BlockToolCall:
			events = append(events, Event{Type: EventToolCall, ToolCall: &ToolCallDelta{
				Index: calls, ID: b.ToolCall.ID, Name: b.ToolCall.Name, Arguments: string(b.ToolCall.Arguments),
			}})
			calls++
		}
	}
	usage := r.Usage
	return append(events, Event{Type: EventUsage, Usage: &usage}, Event{Type: EventFinish, Finish: r.Finish})
}

func pieces(text string, size int) []string {
	var out []string
	for len(text) > max(size, utf8.UTFMax) {
		end := max(size, utf8.UTFMax)
		for !utf8.RuneStart(text[end]) {
			end--
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}
