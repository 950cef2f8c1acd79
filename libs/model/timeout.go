package model

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Timeouts bounds one request. Zero means no bound.
type Timeouts struct {
	FirstEvent time.Duration // from sending to the first event: covers a model that must be loaded first
	Idle       time.Duration // silence between two events
	Total      time.Duration // the whole answer, and a whole embedding call
}

// DefaultTimeouts allow a slow machine to load a model and no more.
func DefaultTimeouts() Timeouts {
	return Timeouts{FirstEvent: 3 * time.Minute, Idle: time.Minute, Total: 15 * time.Minute}
}

// WithTimeouts ends requests that take longer than t allows, with KindTimeout. It relies on the provider obeying its
// context. Put it under [Retry], so that each attempt has its own time.
func WithTimeouts(p Provider, t Timeouts) Provider { return &timeouts{p, t} }

type timeouts struct {
	Provider
	t Timeouts
}

func (w *timeouts) Unwrap() Provider { return w.Provider }

func (w *timeouts) Generate(ctx context.Context, req Request) (Stream, error) {
	d := newDog(ctx, w.Name(), req.Model, w.t)
	d.set(w.t.FirstEvent, "no answer within")
	s, err := w.Provider.Generate(d.ctx, req)
	if err != nil {
		d.stop()
		return nil, d.explain(err)
	}
	return &timedStream{Stream: s, dog: d, idle: w.t.Idle}, nil
}

func (w *timeouts) Embed(ctx context.Context, req EmbedRequest) (EmbedResponse, error) {
	d := newDog(ctx, w.Name(), req.Model, w.t)
	defer d.stop()
	out, err := w.Provider.Embed(d.ctx, req)
	return out, d.explain(err)
}

type timedStream struct {
	Stream
	dog     *dog
	idle    time.Duration
	started bool
}

func (s *timedStream) Next() (Event, error) {
	if s.started { // until then the timer of the first event, set in Generate, goes on
		s.dog.set(s.idle, "silence for")
	}
	ev, err := s.Stream.Next()
	if err != nil {
		s.dog.stop()
		return ev, s.dog.explain(err)
	}
	s.started = true
	s.dog.set(0, "") // the time that the caller takes is not the provider's silence
	return ev, nil
}

func (s *timedStream) Close() error {
	err := s.Stream.Close()
	s.dog.stop()
	return err
}

// dog cancels a request when one of its timers runs out, and keeps why.
type dog struct {
	ctx             context.Context
	cancel          context.CancelCauseFunc
	provider, model string
	mu              sync.Mutex
	timer, total    *time.Timer
}

func newDog(ctx context.Context, provider, model string, t Timeouts) *dog {
	d := &dog{provider: provider, model: model}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	if t.Total > 0 {
		d.total = time.AfterFunc(t.Total, func() { d.bite("not done within", t.Total) })
	}
	return d
}

func (d *dog) bite(what string, after time.Duration) {
	d.cancel(NewError(KindTimeout, d.provider, d.model, "%s: %s %s", d.provider, what, after))
}

// set replaces the running timer.
func (d *dog) set(after time.Duration, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if after > 0 && d.ctx.Err() == nil {
		d.timer = time.AfterFunc(after, func() { d.bite(what, after) })
	}
}

func (d *dog) stop() {
	d.set(0, "")
	if d.total != nil {
		d.total.Stop()
	}
	d.cancel(nil)
}

// explain turns the "context canceled" that a bite caused into the reason of the bite.
func (d *dog) explain(err error) error {
	var timeout *Error
	if err == nil || errors.Is(err, io.EOF) || !errors.As(context.Cause(d.ctx), &timeout) {
		return err
	}
	return timeout
}
