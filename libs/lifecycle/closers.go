// Package lifecycle starts the parts of a process in order and stops them in reverse.
//
// [Closers] is for a constructor that must undo what it built when a later step fails; [Group] is for parts that run.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Closers is a stack of clean-up steps. The zero value is ready. It may be used by many goroutines.
type Closers struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name string
	stop func(context.Context) error
}

// Push adds a step; steps run in reverse order. A nil step is ignored.
func (c *Closers) Push(name string, stop func(context.Context) error) {
	if stop == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, step{name, stop})
}

// PushCloser adds the Close of something that takes no context.
func (c *Closers) PushCloser(name string, closer io.Closer) {
	c.Push(name, func(context.Context) error { return closer.Close() })
}

// Close runs every step, last first, each once, and returns their errors joined, each with its name. A step that
// outlasts ctx is left behind, with an error that names it, so that one stuck part does not keep the others open.
// Calling it again runs only what was pushed since.
func (c *Closers) Close(ctx context.Context) error {
	var errs []error
	for {
		s, ok := c.pop()
		if !ok {
			return errors.Join(errs...)
		}
		if err := runStep(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
}

// Release forgets every step and returns them as a new stack: a constructor calls it when everything is built and the
// result owns the parts.
func (c *Closers) Release() *Closers {
	c.mu.Lock()
	defer c.mu.Unlock()
	released := &Closers{steps: c.steps}
	c.steps = nil
	return released
}

func (c *Closers) pop() (step, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.steps) == 0 {
		return step{}, false
	}
	last := len(c.steps) - 1
	s := c.steps[last]
	c.steps = c.steps[:last]
	return s, true
}

// runStep runs one step and waits for it no longer than ctx allows. After ctx ended, a step still gets the chance to
// finish at once.
func runStep(ctx context.Context, s step) error {
	done := make(chan error, 1)
	go func() { done <- s.stop(ctx) }()
	select {
	case err := <-done:
		return named(s.name, err)
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return named(s.name, err)
	default:
		return fmt.Errorf("%s: still stopping: %w", s.name, context.Cause(ctx))
	}
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
