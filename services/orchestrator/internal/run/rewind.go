package run

import (
	"context"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Rewind moves a thread without an open run back to what it was. THREAD_NOT_FOUND, ABORTED/THREAD_BUSY.
func (m *Manager) Rewind(ctx context.Context, id identity.Identity, past *loop.Thread) error {
	return m.alone(ctx, id, func(a *actor) error {
		a.past = past
		if err := a.stageFor("", "", 0, &threadv1.EventPayload{Kind: &threadv1.EventPayload_ThreadRewound{ThreadRewound: &threadv1.ThreadRewound{
			ToSeq: past.Seq, Actor: id.User,
		}}}); err != nil {
			return err
		}
		// What the thread is now follows from the journal's past: a checkpoint spares the next opener to read that.
		if err := a.writeCheckpoint(); err != nil {
			return err
		}
		return a.flush(false)
	})
}

// alone acquires a thread without an open run, restores it, and runs f as its owner.
func (m *Manager) alone(ctx context.Context, id identity.Identity, f func(a *actor) error) error {
	key, err := id.Thread()
	if err != nil {
		return err
	}
	if err := m.Settle(ctx); err != nil {
		return err
	}
	head, err := m.head(ctx)
	if err != nil {
		return err
	}
	if head.GetSeq() == 0 {
		return errdefs.New(errdefs.ErrNotFound, threadDomain, "THREAD_NOT_FOUND", "the thread has no journal").With("session", key.Session)
	}
	if head.GetOpenRunId() != "" {
		return threadBusy(head.GetOpenRunId())
	}
	thread, err := m.owner.Acquire(identity.NewContext(ctx, id), false)
	if err != nil {
		return err
	}
	a := m.newActor(key, thread, m.drain, make(chan struct{}, 1))
	defer a.hub.close()
	a.identity = id
	if err = a.restore(); err == nil {
		err = f(a)
	}
	if rerr := thread.Release(); err == nil {
		err = rerr
	}
	m.Wake(key) // for mail that came meanwhile
	return err
}
