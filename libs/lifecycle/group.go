package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrStopped is the cause of the context of work that ends because its owner stops, as opposed to a caller who went
// away.
var ErrStopped = errors.New("lifecycle: stopping")

// errStarted is returned by a second Start.
var errStarted = errors.New("lifecycle: started already")

// Part is something that runs. Start returns when the part is ready, or has failed and left nothing open; the context
// of Start is for starting only. Stop returns when the part has ended; it is called at most once, and only after a
// Start that succeeded.
type Part struct {
	// Name is for errors.
	Name string
	// Start may be nil.
	Start func(ctx context.Context) error
	// Stop may be nil. Its context carries the deadline of this part alone.
	Stop func(ctx context.Context) error
	// StopTimeout bounds Stop. Zero: 10 seconds.
	StopTimeout time.Duration
}

const defaultStopTimeout = 10 * time.Second

// Group starts parts in order and stops them in reverse. The zero value is ready; add parts before Start.
type Group struct {
	// op serialises Start and Stop; mu guards the fields for Add and for a Stop that finds Start under way.
	op      sync.Mutex
	mu      sync.Mutex
	parts   []Part
	running []Part
	state   state
	cancel  context.CancelCauseFunc
}

type state int

const (
	idle state = iota
	starting
	started
	stopped
)

// Add adds a part behind the others. Parts added after Start are never started.
func (g *Group) Add(p Part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts = append(g.parts, p)
}

// Start starts every part in order. When one fails, those before it are stopped again and the error names the part. A
// group starts once; a Stop before or during Start makes it fail with [ErrStopped].
func (g *Group) Start(ctx context.Context) error {
	g.op.Lock()
	defer g.op.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts, err := g.begin(cancel)
	if err != nil {
		return err
	}
	for _, p := range parts {
		err := context.Cause(ctx)
		if err == nil && p.Start != nil {
			err = p.Start(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", p.Name, err), g.stopRunning(context.WithoutCancel(ctx)))
		}
		g.mu.Lock()
		g.running = append(g.running, p)
		g.mu.Unlock()
	}
	g.mu.Lock()
	stopAsked := g.state == stopped
	if !stopAsked {
		g.state = started
	}
	g.mu.Unlock()
	if stopAsked {
		return errors.Join(ErrStopped, g.stopRunning(context.WithoutCancel(ctx)))
	}
	return nil
}

// Stop stops what runs, last first, each part within its own time and all within ctx. It may be called before Start,
// twice, and by many at once; each call returns when everything has stopped.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	if g.state == starting {
		g.cancel(ErrStopped)
	}
	g.state = stopped
	g.mu.Unlock()

	g.op.Lock()
	defer g.op.Unlock()
	return g.stopRunning(ctx)
}

// begin moves the group from idle to starting.
func (g *Group) begin(cancel context.CancelCauseFunc) ([]Part, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.state {
	case stopped:
		return nil, ErrStopped
	case starting, started:
		return nil, errStarted
	}
	g.state, g.cancel = starting, cancel
	return g.parts, nil
}

// stopRunning stops the running parts in reverse. The caller holds op.
func (g *Group) stopRunning(ctx context.Context) error {
	g.mu.Lock()
	running := g.running
	g.running, g.state = nil, stopped
	g.mu.Unlock()
	var errs []error
	for i := len(running) - 1; i >= 0; i-- {
		p := running[i]
		if p.Stop == nil {
			continue
		}
		timeout := p.StopTimeout
		if timeout == 0 {
			timeout = defaultStopTimeout
		}
		partCtx, cancel := context.WithTimeout(ctx, timeout)
		if err := runStep(partCtx, step{"stop " + p.Name, p.Stop}); err != nil {
			errs = append(errs, err)
		}
		cancel()
	}
	return errors.Join(errs...)
}
