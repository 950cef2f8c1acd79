package manifest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// maxTries is how often an update runs when other replicas are always faster.
	maxTries = 100
	// backoff is how long it waits after the first time at most, and maxBackoff after many.
	backoff    = 5 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// errRerun says that the run of an update was built on what is not there: it has to run again.
var errRerun = errors.New("another replica was faster")

// Update implements [files.Store].
func (s *Store) Update(ctx context.Context, space files.Space, effect files.Effect, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	l, release, err := s.hold(space)
	if err != nil {
		return files.Updated{}, err
	}
	defer release()
	return l.update(ctx, false, func(p *plan) (files.Updated, error) {
		if done, found, err := p.recorded(ctx, effect); err != nil || found {
			return done, err
		}
		outcome, err := p.run(ctx, f)
		if err == nil && effect.ID != "" {
			err = p.record(effect, outcome)
		}
		return files.Updated{Outcome: outcome, Cursor: p.state.cursor()}, err
	})
}

func (s *state) cursor() files.Cursor { return files.Cursor{Generation: s.generation, Seq: s.seq} }

// update runs f on a plan until what it was built on counts. alone: f's changes get an entry of their own.
func (l *live) update(ctx context.Context, alone bool, f func(*plan) (files.Updated, error)) (files.Updated, error) {
	for try := 1; ; try++ {
		out, err := l.attempt(ctx, alone, f)
		if !errors.Is(err, errRerun) {
			return out, err
		}
		if try == maxTries {
			return files.Updated{}, errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "other replicas write this bucket all the time: try again").RetryIn(time.Second)
		}
		if err := pause(ctx, try); err != nil {
			return files.Updated{}, err
		}
	}
}

// pause waits a random while, longer after more tries.
func pause(ctx context.Context, try int) error {
	most := min(backoff<<min(try, 10), maxBackoff)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt runs f once, in the batch that is open or a new one, and waits for the outcome of the batch.
func (l *live) attempt(ctx context.Context, alone bool, f func(*plan) (files.Updated, error)) (out files.Updated, err error) {
	if err := l.turns.acquire(ctx); err != nil {
		return files.Updated{}, err
	}
	if b := l.open; b != nil && alone {
		l.commit(b)
	}
	b := l.open
	if b == nil {
		begun := time.Now()
		st, err := l.look(ctx)
		if err != nil {
			l.turns.release()
			return files.Updated{}, err
		}
		b = newBatch(l, st, begun)
		l.open = b
	}
	p := newPlan(l, b)
	ran := false
	defer func() {
		if !ran { // f ends its goroutine
			p.giveBack()
			l.passOn(b, alone)
		}
	}()
	out, err = f(p)
	ran = true
	if err == nil {
		b.join(p)
	} else {
		p.giveBack()
	}
	l.passOn(b, alone)
	select {
	case <-b.done:
	case <-ctx.Done():
		return files.Updated{}, ctx.Err()
	}
	switch {
	case b.err == nil:
		return out, err
	case !b.unknown:
		p.giveBack()
	}
	return files.Updated{}, b.err
}

// passOn passes the turn on. When the batch is full, or nobody waits to join it, it is committed first.
func (l *live) passOn(b *batch, alone bool) {
	if !alone && !b.full() && l.turns.pass() {
		return
	}
	l.commit(b)
	l.turns.release()
}
