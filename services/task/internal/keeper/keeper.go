// Package keeper lets time happen: it ends leases that were not renewed, enforces deadlines, starts what had to wait, fires schedules, and removes what retention does not keep.
//
// It does not poll. It sleeps until the earliest time at which the store has something to do, and is woken when an earlier one appears.
package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

const (
	// longest is the longest sleep: on a store that replicas share, one of them may have set a time without this one hearing of it.
	longest = 30 * time.Second
	// afterError is the sleep after the store failed.
	afterError = time.Second
)

// Keeper is the one that sweeps. Make it with [New], run it with [Keeper.Run].
type Keeper struct {
	engine    *task.Engine
	retention task.Retention
	every     time.Duration
	log       *slog.Logger

	mu    sync.Mutex
	next  time.Time // when the present sleep ends, by the store's clock; zero while awake
	poked chan struct{}
}

// New returns a keeper. Retention is applied at start and every so often.
func New(engine *task.Engine, retention task.Retention, every time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{engine: engine, retention: retention, every: every, log: log, poked: make(chan struct{}, 1)}
}

// Signal is a listener of the store.
func (k *Keeper) Signal(s task.Signal) {
	if s.Kind != task.SignalWake {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// While it is awake it reads the next time itself, but may have read it already.
	if k.next.IsZero() || s.Time.Before(k.next) {
		select {
		case k.poked <- struct{}{}:
		default:
		}
	}
}

// Run keeps until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	retain := time.NewTimer(0)
	defer retain.Stop()
	for {
		sleep := k.sweep(ctx)
		timer := time.NewTimer(sleep)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-k.poked:
		case <-retain.C:
			k.retain(ctx)
			retain.Reset(k.every)
		}
		timer.Stop()
		k.setNext(time.Time{})
	}
}

// sweep does what is due and returns how long to sleep then.
func (k *Keeper) sweep(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		n, err := k.engine.Sweep(ctx)
		if err != nil {
			return k.failed(ctx, "sweep", err)
		}
		if n > 0 {
			continue
		}
		wake, now, err := k.engine.NextWake(ctx)
		if err != nil {
			return k.failed(ctx, "next wake time", err)
		}
		if wake.IsZero() || wake.Sub(now) > longest {
			wake = now.Add(longest)
		}
		if wait := wake.Sub(now); wait > 0 {
			k.setNext(wake)
			return wait
		}
	}
	return 0
}

func (k *Keeper) failed(ctx context.Context, what string, err error) time.Duration {
	if ctx.Err() == nil {
		k.log.LogAttrs(ctx, slog.LevelError, "keeper failed; trying again", slog.String("step", what), slog.Any("error", err))
	}
	return afterError
}

func (k *Keeper) setNext(at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = at
}

// retain removes what is not kept, in portions.
func (k *Keeper) retain(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := k.engine.Retain(ctx, k.retention)
		if err != nil {
			k.failed(ctx, "retention", err)
			return
		}
		if !more {
			return
		}
	}
}
