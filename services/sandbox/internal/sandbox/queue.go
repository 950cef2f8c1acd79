package sandbox

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// enter waits for its turn and holds the sandbox as a call does, making it when there is none.
func (m *Manager) enter(ctx context.Context, bucket string, want Want, exclusive bool, wait time.Duration) (*Live, bool, error) {
	deadline := time.Now().Add(wait)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slot(bucket)
	defer m.drop(s)
	me := &ticket{turn: make(chan struct{}, 1), exclusive: exclusive}
	queued := false
	defer func() {
		if queued {
			i := slices.Index(s.queue, me)
			s.queue = slices.Delete(s.queue, i, i+1)
			s.wake()
		}
	}()
	for {
		if m.closed {
			return nil, false, errdefs.New(errdefs.ErrUnavailable, Domain, "", "the service is stopping")
		}
		first := s.myTurn(me)
		if first && !s.busy && s.live != nil && s.live.state != LiveLost {
			l := s.live
			err := m.admit(l, 0)
			if err == nil && exclusive && len(l.leases)+l.calls > 0 {
				err = busy(l)
			}
			if err == nil {
				l.calls++
				l.lastUse = m.now()
				return l, false, nil
			}
			if wait <= 0 || errdefs.ReasonOf(err) != ReasonBusy {
				return nil, false, err
			}
		} else if first && !s.busy {
			l, err := m.make(ctx, s, want, deadline)
			return l, err == nil, err
		}
		// Making or taking down is always waited for: it ends by itself, and the caller asked for a sandbox.
		if !s.busy && !time.Now().Before(deadline) {
			return nil, false, Errorf(errdefs.ErrAborted, ReasonBusy, "others hold the sandbox, and the wait for it ran out").RetryIn(time.Second)
		}
		if !queued {
			if len(s.queue) >= m.set.MaxWaiters {
				return nil, false, Errorf(errdefs.ErrResourceExhausted, ReasonBusy, "too many callers wait for this sandbox").RetryIn(time.Second)
			}
			s.queue = append(s.queue, me)
			queued = true
		}
		limit := time.Until(deadline)
		if s.busy {
			limit = max(limit, time.Minute)
		}
		if err := m.sleep(ctx, me.turn, limit); err != nil {
			return nil, false, err
		}
	}
}

// myTurn says whether a caller may go now: sharers pass each other, nobody passes one who waits to be alone. The caller holds mu.
func (s *slot) myTurn(me *ticket) bool {
	for _, t := range s.queue {
		if t == me {
			return true
		}
		if t.exclusive || me.exclusive {
			return false
		}
	}
	return true
}

// sleep gives the mutex away until ch speaks, the limit passes, or the caller is gone.
func (m *Manager) sleep(ctx context.Context, ch <-chan struct{}, limit time.Duration) error {
	m.mu.Unlock()
	defer m.mu.Lock()
	t := time.NewTimer(max(limit, 0))
	defer t.Stop()
	select {
	case <-ch:
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// make makes the sandbox of a slot. The caller holds mu, which is given away meanwhile; the result holds a call.
func (m *Manager) make(ctx context.Context, s *slot, want Want, deadline time.Time) (*Live, error) {
	if s.live != nil {
		m.forget(s.live)
	}
	s.busy = true
	defer func() {
		s.busy = false
		s.wake()
	}()
	m.mu.Unlock()
	err := m.tell(ctx, s.bucket, want)
	m.mu.Lock()
	if err != nil {
		return nil, err
	}
	if err := m.place(ctx, s.bucket, deadline); err != nil {
		return nil, err
	}
	m.mu.Unlock()
	l, err := m.build(ctx, s.bucket, want)
	m.mu.Lock()
	if err != nil {
		m.occupy(s.bucket, -1)
		m.freed()
		return nil, err
	}
	l.slot, s.live = s, l
	l.calls++
	m.byID[l.Instance.Spec().ID] = l
	return l, nil
}
