package run

import (
	"context"
	"strings"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/compact"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Load reads the projection of the thread of the context's identity. A thread without a journal is empty.
func (m *Manager) Load(ctx context.Context) (*loop.Thread, error) {
	opened, err := checkpoint.Open(ctx, m.threads, 0, m.log)
	if notFound(err) {
		return &loop.Thread{}, nil
	}
	return opened.Thread, err
}

// Compact summarises the front of a thread that has no working run. Nil: there was nothing to do.
func (m *Manager) Compact(ctx context.Context, id identity.Identity, keep int) (applied *threadv1.CompactionApplied, err error) {
	err = m.alone(ctx, id, func(a *actor) error {
		applied, err = a.compactNow(ctx, keep)
		return err
	})
	return applied, err
}

func (a *actor) compactNow(ctx context.Context, keep int) (*threadv1.CompactionApplied, error) {
	if err := a.setUp(emptyInput(), nil, "", ""); err != nil {
		return nil, err
	}
	kit, err := a.m.kits.Kit(a.context(), a.kitFacts("", ""))
	if err != nil {
		return nil, err
	}
	a.kit = kit
	name, _ := kit.Models()
	resolved, err := a.m.models.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	done, err := a.compact(resolved, compact.TriggerRequested, keep)
	if err != nil {
		return nil, err
	}
	var applied *threadv1.CompactionApplied
	for _, ev := range a.batch.Events {
		if c := ev.GetPayload().GetCompactionApplied(); c != nil {
			applied = c
		}
	}
	if err := a.flush(false); err != nil || !done {
		return nil, err
	}
	return applied, nil
}

// settleWithin bounds the wait for an actor that is about to give its thread up.
const settleWithin = 2 * time.Second

// Settle waits until this replica has let go of the thread of the context's identity. ABORTED/THREAD_BUSY while a run works on it.
func (m *Manager) Settle(ctx context.Context) error {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for {
		there, changed := m.present(key)
		if !there {
			return nil
		}
		var r *orchestratorv1.Run
		if a, _ := m.actorOf(key); a != nil {
			r = a.view.Load()
		}
		if r.GetState() == threadv1.RunState_RUN_STATE_RUNNING {
			return threadBusy(r.GetId())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return threadBusy(r.GetId())
		}
	}
}

func threadBusy(run string) error {
	return errdefs.New(errdefs.ErrAborted, Domain, "THREAD_BUSY", "the thread has a run").With("run_id", run)
}

// Forget drops what this replica remembers of the thread of the context's identity: it was deleted, and a new one of that name has nothing to do with it.
func (m *Manager) Forget(ctx context.Context) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.ended {
		if strings.HasPrefix(at, key.Key()+"\x00") {
			delete(m.ended, at)
		}
	}
}
