package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// lookAfter ends leases, notices dead sandboxes, saves changed ones and releases idle ones, until the manager stops.
func (m *Manager) lookAfter(ctx context.Context) {
	tick := time.NewTicker(m.set.Tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, l := range m.all() {
			if ctx.Err() != nil {
				return
			}
			if err := m.lookAt(ctx, l); err != nil && ctx.Err() == nil {
				m.log.Warn("looking after a sandbox failed", "sandbox", l.Instance.Spec().ID, "error", err)
			}
		}
	}
}

func (m *Manager) all() (out []*Live) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.byID {
		out = append(out, l)
	}
	return out
}

// lookAt does what is due for one sandbox.
func (m *Manager) lookAt(ctx context.Context, l *Live) error {
	m.mu.Lock()
	for id, lease := range l.leases {
		if m.now().After(lease.Expires) {
			delete(l.leases, id)
			l.lastUse = m.now()
			l.slot.wake()
		}
	}
	skip := l.slot.busy || l.state != LiveRunning && l.state != LivePaused
	m.mu.Unlock()
	if skip {
		return nil
	}
	running, err := l.Instance.Alive(ctx)
	if err != nil {
		if errors.Is(err, errdefs.ErrUnavailable) && ctx.Err() == nil {
			return m.bury(ctx, l)
		}
		return err
	}
	m.mu.Lock()
	now := m.now()
	if running == 0 && l.running > 0 {
		l.lastUse, l.lastChange = now, now // a command in the background has ended
	}
	if running > 0 {
		l.dirty = true
	}
	l.running = running
	idle := len(l.leases)+l.calls+running == 0 && now.Sub(l.lastUse) >= l.idle && l.stopSave == nil
	save := m.due(l, now)
	m.mu.Unlock()
	switch {
	case idle:
		return m.retire(ctx, l)
	case save:
		m.saveSoon(ctx, l)
	}
	return nil
}

// bury removes a sandbox that died and remembers which effects are lost with it.
func (m *Manager) bury(ctx context.Context, l *Live) error {
	m.mu.Lock()
	if l.state == LiveLost || l.state == LiveStopping || l.slot.busy {
		m.mu.Unlock()
		return nil
	}
	l.state, l.slot.busy = LiveLost, true
	m.mu.Unlock()
	spec := l.Instance.Spec()
	m.log.Warn("a sandbox died", "sandbox", spec.ID, "bucket", spec.Bucket)
	// A snapshot that was read before the end is stored first: it loses less.
	l.saves.Lock()
	defer l.saves.Unlock()
	err := errors.Join(m.rememberLost(ctx, spec, m.lastRecords(ctx, l), false), l.Instance.Destroy(ctx))
	l.gone = true
	m.mu.Lock()
	defer m.mu.Unlock()
	l.slot.busy = false
	m.forget(l)
	return err
}

// lastRecords are the records of a sandbox that may be dead.
func (m *Manager) lastRecords(ctx context.Context, l *Live) []Record {
	records, _ := l.Instance.Execs(ctx) // the supervisor may live although the sandbox does not
	if records == nil {
		if r, ok := l.Instance.(interface{ StoredRecords() ([]Record, error) }); ok {
			records, _ = r.StoredRecords()
		}
	}
	return records
}

// forget takes a sandbox out of the books. The caller holds mu.
func (m *Manager) forget(l *Live) {
	if m.byID[l.Instance.Spec().ID] != l {
		return
	}
	delete(m.byID, l.Instance.Spec().ID)
	if l.slot.live == l {
		l.slot.live = nil
	}
	m.occupy(l.slot.bucket, -1)
	l.slot.wake()
	m.freed()
	m.drop(l.slot)
}

// retire saves a sandbox that nobody uses and takes it down. When it cannot be saved it stays.
func (m *Manager) retire(ctx context.Context, l *Live) error {
	m.mu.Lock()
	if l.slot.busy || l.state != LiveRunning && l.state != LivePaused || len(l.leases)+l.calls > 0 {
		m.mu.Unlock()
		return nil
	}
	return m.takeDown(ctx, l, l.Caps.Snapshots && l.dirty)
}

// RetireUnused saves and takes down every sandbox that nobody holds and in which nothing runs. The others stay.
func (m *Manager) RetireUnused(ctx context.Context) error {
	var errs []error
	for _, l := range m.all() {
		if running, err := l.Instance.Alive(ctx); err == nil && running == 0 {
			errs = append(errs, m.retire(ctx, l))
		}
	}
	return errors.Join(errs...)
}

// takeDown ends a sandbox. The caller holds mu, which is given away.
func (m *Manager) takeDown(ctx context.Context, l *Live, save bool) error {
	before := l.state
	l.state, l.slot.busy = LiveStopping, true
	m.mu.Unlock()
	var err error
	if save {
		_, _, err = m.save(ctx, l, saveOptions{automatic: true})
	} else if !l.Caps.Snapshots {
		err = m.keepRecords(ctx, l)
	}
	if err == nil {
		err = m.end(context.WithoutCancel(ctx), l)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.slot.busy = false
	if err != nil {
		l.state = before
		l.lastUse = m.now() // try again after another idle time, not at once
		l.slot.wake()
		return err
	}
	m.forget(l)
	return nil
}

// end destroys an instance on purpose: what commands do in it after it was saved is no loss.
func (m *Manager) end(ctx context.Context, l *Live) error {
	l.saves.Lock() // a snapshot that is being stored may not become the current one afterwards
	defer l.saves.Unlock()
	if err := m.unmark(ctx, l); err != nil {
		return err
	}
	err := l.Instance.Destroy(ctx)
	l.gone = err == nil
	return err
}

// keepRecords makes the effects of a sandbox without snapshots known as belonging to a generation that is gone.
func (m *Manager) keepRecords(ctx context.Context, l *Live) error {
	records, err := l.Instance.Execs(ctx)
	if err != nil {
		return err
	}
	return m.rememberLost(ctx, l.Instance.Spec(), records, false)
}

// giveUp forgets that there are unsaved changes, since somebody does not want them, and keeps the effects as belonging to a generation that is gone.
func (m *Manager) giveUp(ctx context.Context, l *Live) error {
	m.mu.Lock()
	if l.stopSave != nil {
		l.stopSave()
	}
	m.mu.Unlock()
	l.saves.Lock()
	defer l.saves.Unlock()
	l.marking.Lock()
	defer l.marking.Unlock()
	l.marked = false
	return m.rememberLost(ctx, l.Instance.Spec(), m.lastRecords(ctx, l), true)
}

// Destroy ends a sandbox. Without force it refuses while others hold it.
func (m *Manager) Destroy(ctx context.Context, bucket, id string, token int64, save, force bool) (*Manifest, error) {
	m.mu.Lock()
	l, err := m.find(bucket, id)
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	if err := m.evictable(l, token, force); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	if save && !l.Caps.Snapshots {
		m.mu.Unlock()
		return nil, Unimplemented("Snapshot", "this driver has none; its files stay where they are")
	}
	m.mu.Unlock()
	var saved *Manifest
	if save {
		s, _, err := m.save(ctx, l, saveOptions{})
		if err != nil {
			return nil, err
		}
		saved = &s
	} else if err := m.giveUp(ctx, l); err != nil {
		return nil, err
	}
	m.mu.Lock()
	l.leases = map[string]*Lease{}
	return saved, m.takeDown(ctx, l, false)
}

// evictable checks that a sandbox may be taken away. The caller holds mu.
func (m *Manager) evictable(l *Live, token int64, force bool) error {
	if l.slot.busy || l.state == LiveStopping {
		return Errorf(errdefs.ErrAborted, ReasonBusy, "the sandbox is being saved or taken down already").RetryIn(time.Second)
	}
	if token > 0 {
		if err := m.admit(l, token); err != nil {
			return err
		}
	}
	others := l.calls
	for _, lease := range l.leases {
		if lease.Token != token {
			others++
		}
	}
	if others > 0 && !force {
		return busy(l)
	}
	return nil
}

// Pause and Resume stop and start the processes of a sandbox.
func (m *Manager) Pause(ctx context.Context, l *Live) error {
	if !l.Caps.Snapshots {
		return Unimplemented("Pause", "this driver cannot stop processes")
	}
	if err := l.Instance.Freeze(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.state = LivePaused
	return nil
}

// Resume lets a paused sandbox go on.
func (m *Manager) Resume(ctx context.Context, l *Live) error {
	if !l.Caps.Snapshots {
		return Unimplemented("Resume", "this driver cannot stop processes")
	}
	if err := l.Instance.Thaw(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.state == LivePaused {
		l.state = LiveRunning
	}
	return nil
}
