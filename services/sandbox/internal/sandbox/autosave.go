package sandbox

import (
	"context"
	"time"
)

const (
	// maxSaving bounds the sandboxes that are saved on their own at a time.
	maxSaving = 2
	// saveShare is how many times as long as a save took the next one on its own waits: saving a large workspace takes a tenth of the time at most.
	saveShare = 10
	// saveRetry is how long after a save that failed the next one is tried.
	saveRetry = 30 * time.Second
)

// due says whether a sandbox is to be saved now: it was changed, and either nobody has changed it for a moment and nobody holds it, or it has not been saved for long. The caller holds mu.
func (m *Manager) due(l *Live, now time.Time) bool {
	if l.state != LiveRunning || !l.dirty || !l.Caps.Snapshots || l.stopSave != nil || now.Before(l.nextSave) {
		return false
	}
	left := len(l.leases)+l.calls == 0 && !l.lastSave.After(l.lastChange)
	return m.set.SnapshotInterval > 0 && now.Sub(l.lastSave) >= m.set.SnapshotInterval ||
		m.set.SaveAfter > 0 && left && now.Sub(l.lastChange) >= m.set.SaveAfter
}

// saveSoon saves a sandbox beside everything else, if not too many are being saved; then it is due again at the next look.
func (m *Manager) saveSoon(ctx context.Context, l *Live) {
	select {
	case m.saving <- struct{}{}:
	default:
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	l.stopSave = cancel
	m.mu.Unlock()
	m.work.Go(func() {
		defer func() { <-m.saving }()
		defer cancel()
		start := time.Now()
		_, _, err := m.save(ctx, l, saveOptions{automatic: true})
		wait := saveShare * time.Since(start)
		if err != nil {
			wait = saveRetry
			if ctx.Err() == nil {
				m.log.Warn("a sandbox could not be saved", "sandbox", l.Instance.Spec().ID, "error", err)
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		l.stopSave, l.nextSave = nil, m.now().Add(wait)
	})
}
