package run

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// claim takes threads whose owner died, for as long as there is room for them.
func (m *Manager) claim() {
	ctx, cancel := context.WithCancel(m.quit)
	defer cancel()
	go func() {
		select {
		case <-m.drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	const wait, minPause, maxPause, most = 10 * time.Second, 200 * time.Millisecond, 2 * time.Second, 16
	pause := minPause
	for ctx.Err() == nil {
		all, _ := m.load(identity.Thread{})
		room := min(m.cfg.MaxThreads-all, most)
		if room > 0 {
			claims, hold, err := m.owner.Claim(ctx, int32(room), wait)
			for _, c := range claims {
				key := ThreadOf(c.GetHead().GetThread())
				id := identity.Identity{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session, Scope: identity.ScopeSession}
				m.wake(key, hold(identity.NewContext(m.quit, id), c), false)
			}
			if err == nil {
				pause = minPause
				continue
			}
			switch {
			case errdefs.ReasonOf(err) == "OWNER_EXPIRED": // its first heartbeat is on its way
				pause = minPause / 4
			case ctx.Err() == nil:
				pause = min(2*pause, maxPause)
				m.log.Warn("looking for threads without an owner failed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
