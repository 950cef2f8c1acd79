package sandbox

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Once makes a change of files at most once for its effect id. The record lies with the supervisor, so it outlives this process, and it travels with snapshots. change
// returns the answer that a repeat gets. An intent without an outcome means that this process died in between: then repeatable says that making
// the change again does no harm; otherwise the outcome is unknown, and is said to be.
func (m *Manager) Once(ctx context.Context, l *Live, effect, hash string, repeatable bool, change func() ([]byte, error)) ([]byte, error) {
	if effect == "" {
		return change()
	}
	leave, err := m.alone(ctx, l, effect)
	if err != nil {
		return nil, err
	}
	defer leave()
	old, err := l.Instance.Lookup(ctx, effect)
	switch {
	case err == nil && old.Hash != hash:
		return nil, Errorf(errdefs.ErrAborted, ReasonEffectMismatch, "another request was recorded under this effect id").With("effect", effect)
	case err == nil && old.Exit.State == StateExited:
		return old.Answer, nil
	case err == nil && !repeatable:
		return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonExecLost, "the service died while it made this change, so it may or may not have been made").With("effect", effect)
	case err != nil && errdefs.ReasonOf(err) != ReasonExecNotFound:
		return nil, err
	}
	if gone, err := m.void(ctx, l.Instance.Spec().Bucket, effect); err != nil {
		return nil, err
	} else if gone != nil {
		return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonExecLost, "this change was made in a sandbox that is gone, and is void").With("effect", effect)
	}
	r := Record{ID: newID("f"), Effect: effect, Hash: hash, Kind: KindFile, Title: "file", Start: m.now(), Exit: Exit{State: StateRunning}}
	if err == nil {
		r = old
	}
	if err := l.Instance.Note(ctx, r); err != nil {
		return nil, err
	}
	answer, err := change()
	// The outcome is noted although the caller may be gone by now.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	r.End, r.Answer, r.Exit.State = m.now(), answer, StateExited
	if err != nil {
		r.Exit.State = StateLost // it did not happen: forget the intent
	}
	if noted := l.Instance.Note(after, r); err == nil {
		err = noted
	}
	return answer, err
}

// alone waits until no other call makes the change of an effect.
func (m *Manager) alone(ctx context.Context, l *Live, effect string) (leave func(), err error) {
	for {
		m.mu.Lock()
		other := l.inFlight[effect]
		if other == nil {
			mine := make(chan struct{})
			l.inFlight[effect] = mine
			m.mu.Unlock()
			return func() {
				m.mu.Lock()
				delete(l.inFlight, effect)
				m.mu.Unlock()
				close(mine)
			}, nil
		}
		m.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
