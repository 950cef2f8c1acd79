package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		l, _, err = m.enter(ctx, bucket, want, false, 0)
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
	if err := m.place(ctx, deadline); err != nil {
		return nil, err
	}
	m.mu.Unlock()
	l, err := m.build(ctx, s.bucket, want)
	m.mu.Lock()
	if err != nil {
		m.live--
		m.freed()
		return nil, err
	}
	l.slot, s.live = s, l
	l.calls++
	m.byID[l.Instance.Spec().ID] = l
	return l, nil
}

// place takes one of the places for live sandboxes: a free one, that of an idle sandbox, or the next that becomes free. The caller holds mu.
func (m *Manager) place(ctx context.Context, deadline time.Time) error {
	for m.live >= m.set.MaxSandboxes {
		if victim := m.idlest(); victim != nil {
			m.mu.Unlock()
			err := m.retire(ctx, victim)
			m.mu.Lock()
			if err == nil {
				continue
			}
			m.log.Warn("an idle sandbox could not be released", "sandbox", victim.Instance.Spec().ID, "error", err)
		}
		if !time.Now().Before(deadline) || m.waiting >= m.set.MaxWaiters {
			return Errorf(errdefs.ErrResourceExhausted, ReasonLimitReached, "%d sandboxes live, which is the limit", m.live).
				With("limit", "sandboxes").With("max", fmt.Sprint(m.set.MaxSandboxes)).RetryIn(5 * time.Second)
		}
		m.waiting++
		err := m.sleep(ctx, m.changed, time.Until(deadline))
		m.waiting--
		if err != nil {
			return err
		}
	}
	m.live++
	return nil
}

// idlest returns the sandbox that has been unused for longest, if any is unused. The caller holds mu.
func (m *Manager) idlest() (victim *Live) {
	for _, l := range m.byID {
		if l.state == LiveRunning && !l.slot.busy && len(l.leases)+l.calls+l.running == 0 && (victim == nil || l.lastUse.Before(victim.lastUse)) {
			victim = l
		}
	}
	return victim
}

// build makes a sandbox from the bucket's current snapshot. When that cannot be restored, nothing is made.
func (m *Manager) build(ctx context.Context, bucket string, want Want) (*Live, error) {
	name := want.Driver
	if name == "" {
		if name = m.DefaultDriver(ctx); name == "" {
			name = m.order[0] // its refusal says what is missing
		}
	}
	d := m.drivers[name]
	if d == nil {
		return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonDriverNotConfigured, "there is no driver %q; Probe lists those there are", name).With("driver", name)
	}
	head, err := m.reserve(ctx, bucket, func(h *Head) { h.Generation++ })
	if err != nil {
		return nil, err
	}
	spec := Spec{
		ID: newID("s"), Driver: name, Bucket: bucket, Generation: head.Generation, HostDir: want.HostDir, Created: m.now(),
		Limits: want.Limits.WithDefaults(m.set.Defaults).capped(m.set.Maximum),
	}
	var snapshot Manifest
	if head.Snapshot != "" && d.Capabilities().Snapshots {
		if snapshot, err = m.store.Manifest(ctx, bucket, head.Snapshot); err != nil {
			return nil, err
		}
		spec.Records = snapshot.Records
	}
	in, err := d.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	if snapshot.ID != "" {
		if err := restoreInto(ctx, m.store, snapshot, in); err != nil {
			return nil, errors.Join(err, in.Destroy(context.WithoutCancel(ctx)))
		}
	}
	l := m.newLive(d, in, head, snapshot.ID)
	if want.Idle > 0 {
		l.idle = min(want.Idle, m.set.MaxIdleTimeout)
	}
	return l, nil
}

func restoreInto(ctx context.Context, store SnapshotStore, snapshot Manifest, in Instance) error {
	tree, err := in.Files(ctx, AsCommand)
	if err != nil {
		return err
	}
	return errors.Join(restoreArchive(ctx, store, snapshot, tree), tree.Close())
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
