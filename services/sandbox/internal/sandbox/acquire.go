package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Want says what sandbox a caller wants, should one have to be made.
type Want struct {
	Driver  string
	Limits  Limits
	HostDir string
	// Idle is how long the sandbox is kept unused. 0: the default.
	Idle time.Duration
	// Tell refuses the call once when changes of the bucket are lost, unless it repeats Effect, whose outcome is known.
	Tell   bool
	Effect string
}

// AcquireOptions say how a sandbox is wanted.
type AcquireOptions struct {
	Want      Want
	Exclusive bool
	// Wait is how long to wait for others. 0: not at all.
	Wait time.Duration
	// Duration is the life of the lease. 0: the default.
	Duration time.Duration
}

// Acquire takes a lease, making the sandbox when there is none.
func (m *Manager) Acquire(ctx context.Context, bucket string, o AcquireOptions) (l *Live, lease Lease, created bool, err error) {
	l, created, err = m.enter(ctx, bucket, o.Want, o.Exclusive, o.Wait)
	if err != nil {
		return nil, lease, false, err
	}
	// enter has taken a call's hold, which becomes the lease.
	m.mu.Lock()
	defer m.mu.Unlock()
	l.calls--
	d := o.Duration
	if d <= 0 {
		d = m.set.LeaseDuration
	}
	lease = Lease{ID: newID("l"), Token: l.next, Expires: m.now().Add(d), Exclusive: o.Exclusive, duration: d}
	if l.next == l.limit {
		return nil, Lease{}, false, Errorf(errdefs.ErrResourceExhausted, ReasonLimitReached, "this sandbox has given out all its fencing tokens; destroy it with save")
	}
	l.next++
	if o.Exclusive {
		l.floor = lease.Token
	}
	kept := lease
	l.leases[lease.ID] = &kept
	return l, lease, created, nil
}

// Use holds the bucket's sandbox for one call, making it when there is none. token is that of a lease, or 0. The caller calls release.
func (m *Manager) Use(ctx context.Context, bucket, id string, token int64, want Want) (l *Live, release func(), err error) {
	switch {
	case id != "" || token > 0:
		l, err = m.hold(bucket, id, token)
	default:
		if l, _, err = m.enter(ctx, bucket, want, false, 0); err == nil {
			if err = m.tellLive(ctx, l, want); err != nil {
				m.leave(l)
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return l, func() { m.leave(l) }, nil
}

// hold holds a sandbox that lives.
func (m *Manager) hold(bucket, id string, token int64) (*Live, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.find(bucket, id)
	if err != nil {
		return nil, err
	}
	if err := m.admit(l, token); err != nil {
		return nil, err
	}
	l.calls++
	l.lastUse = m.now()
	return l, nil
}

// find returns the live sandbox of a bucket, by id or the only one. Those of other buckets do not exist. The caller holds mu.
func (m *Manager) find(bucket, id string) (*Live, error) {
	s := m.slots[bucket]
	if s == nil || s.live == nil || id != "" && s.live.Instance.Spec().ID != id {
		return nil, NotFound(id)
	}
	return s.live, nil
}

// Find returns the live sandbox of a bucket without holding it.
func (m *Manager) Find(bucket, id string) (*Live, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.find(bucket, id)
}

// admit checks that a call may use the sandbox now. The caller holds mu.
func (m *Manager) admit(l *Live, token int64) error {
	switch l.state {
	case LiveStopping:
		return Errorf(errdefs.ErrUnavailable, ReasonSandboxLost, "the sandbox is being taken down; acquire again").RetryIn(100 * time.Millisecond)
	case LiveLost:
		return Errorf(errdefs.ErrUnavailable, ReasonSandboxLost, "the sandbox died; acquire again")
	}
	if token == 0 {
		if h := l.exclusive(m.now()); h != nil {
			return busy(l)
		}
		return nil
	}
	for _, lease := range l.leases {
		if lease.Token == token && token >= l.floor {
			if m.now().After(lease.Expires) {
				return Errorf(errdefs.ErrFailedPrecondition, ReasonLeaseExpired, "the lease has run out")
			}
			return nil
		}
	}
	if token < l.floor || token >= l.next {
		return Errorf(errdefs.ErrAborted, ReasonFenced, "the fencing token is no longer valid: the sandbox was replaced or taken over").
			With("token", fmt.Sprint(token)).With("current", fmt.Sprint(l.floor))
	}
	return Errorf(errdefs.ErrFailedPrecondition, ReasonLeaseExpired, "the lease has run out or was released")
}

func busy(l *Live) error {
	return Errorf(errdefs.ErrAborted, ReasonBusy, "others hold the sandbox").With("holders", fmt.Sprint(len(l.leases)+l.calls)).RetryIn(time.Second)
}

// exclusive returns the lease that keeps others out. The caller holds mu.
func (l *Live) exclusive(now time.Time) *Lease {
	for _, lease := range l.leases {
		if lease.Exclusive && now.Before(lease.Expires) {
			return lease
		}
	}
	return nil
}

// leave ends a call's hold.
func (m *Manager) leave(l *Live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.calls--
	l.lastUse = m.now()
	l.slot.wake()
	m.freed()
}

// Renew prolongs a lease.
func (m *Manager) Renew(bucket, id, leaseID string, d time.Duration) (Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.find(bucket, id)
	if err != nil {
		return Lease{}, err
	}
	lease := l.leases[leaseID]
	if lease == nil || m.now().After(lease.Expires) {
		return Lease{}, Errorf(errdefs.ErrFailedPrecondition, ReasonLeaseExpired, "the lease has run out or was released; acquire again").With("lease", leaseID)
	}
	if err := m.admit(l, lease.Token); err != nil {
		return Lease{}, err
	}
	if d > 0 {
		lease.duration = d
	}
	lease.Expires = m.now().Add(lease.duration)
	l.lastUse = m.now()
	return *lease, nil
}

// Release gives a lease back and says how many are left.
func (m *Manager) Release(bucket, id, leaseID string) (left int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, err := m.find(bucket, id)
	if err != nil {
		return 0, err
	}
	if _, ok := l.leases[leaseID]; ok {
		delete(l.leases, leaseID)
		l.lastUse = m.now()
		l.slot.wake()
		m.freed()
	}
	return len(l.leases), nil
}
