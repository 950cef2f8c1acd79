package model

import (
	"context"
	"sync"
)

// first sends the request and waits for the first signal of the answer, so that a wrapper can still do something else
// when that signal is an error. The event is given back by the returned stream.
func first(ctx context.Context, p Provider, req Request) (Stream, error) {
	s, err := p.Generate(ctx, req)
	if err != nil {
		return nil, err
	}
	ev, err := s.Next()
	if err != nil {
		s.Close()
		return nil, err
	}
	return &replay{Stream: s, ev: &ev}, nil
}

// replay is a stream whose first event was taken already.
type replay struct {
	Stream
	mu sync.Mutex
	ev *Event
}

func (r *replay) Next() (Event, error) {
	r.mu.Lock()
	ev := r.ev
	r.ev = nil
	r.mu.Unlock()
	if ev != nil {
		return *ev, nil
	}
	return r.Stream.Next()
}
