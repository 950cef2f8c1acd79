package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// owner is whose places a sandbox takes. Buckets without a user, those of agents and of anonymous sessions, count as one user of their tenant.
type owner struct{ tenant, user string }

func ownerOf(bucket string) owner {
	b, err := identity.ParseBucket(bucket)
	if err != nil {
		return owner{tenant: bucket}
	}
	return owner{b.Tenant, b.User}
}

// occupy adds n to the sandboxes that live or are being made. The caller holds mu.
func (m *Manager) occupy(bucket string, n int) {
	o := ownerOf(bucket)
	m.live += n
	m.ofTenant[o.tenant] += n
	m.ofUser[o] += n
	if m.ofTenant[o.tenant] == 0 {
		delete(m.ofTenant, o.tenant)
	}
	if m.ofUser[o] == 0 {
		delete(m.ofUser, o)
	}
}

// bound is a limit that is reached.
type bound struct {
	name string
	have int
	most int
	// mine says whose sandboxes would make room.
	mine func(owner) bool
}

// reached is the limit that keeps an owner from one more sandbox, the narrowest first. The caller holds mu.
func (m *Manager) reached(o owner) (bound, bool) {
	for _, b := range []bound{
		{"user", m.ofUser[o], m.set.MaxPerUser, func(other owner) bool { return other == o }},
		{"tenant", m.ofTenant[o.tenant], m.set.perTenant(), func(other owner) bool { return other.tenant == o.tenant }},
		{"sandboxes", m.live, m.set.MaxSandboxes, func(owner) bool { return true }},
	} {
		if b.most > 0 && b.have >= b.most {
			return b, true
		}
	}
	return bound{}, false
}

// place takes one of the places for live sandboxes: a free one, that of an idle sandbox, or the next that becomes free. The caller holds mu.
func (m *Manager) place(ctx context.Context, bucket string, deadline time.Time) error {
	o := ownerOf(bucket)
	for {
		b, full := m.reached(o)
		if !full {
			break
		}
		if victim := m.victim(o, b.mine); victim != nil {
			m.mu.Unlock()
			err := m.retire(ctx, victim)
			m.mu.Lock()
			if err == nil {
				continue
			}
			m.log.Warn("an idle sandbox could not be released", "sandbox", victim.Instance.Spec().ID, "error", err)
		}
		if !time.Now().Before(deadline) || m.waiting >= m.set.MaxWaiters {
			whose := map[string]string{"user": " of this user", "tenant": " of this tenant"}[b.name]
			return Errorf(errdefs.ErrResourceExhausted, ReasonLimitReached, "%d sandboxes%s live, which is the limit, and none of them is idle", b.have, whose).
				With("limit", b.name).With("max", fmt.Sprint(b.most)).RetryIn(5 * time.Second)
		}
		m.waiting++
		err := m.sleep(ctx, m.changed, time.Until(deadline))
		m.waiting--
		if err != nil {
			return err
		}
	}
	m.occupy(bucket, 1)
	return nil
}

// victim returns the sandbox that has been unused for longest among those that would make room, one of the same tenant before any other. The caller holds mu.
func (m *Manager) victim(o owner, mine func(owner) bool) (found *Live) {
	near := false
	for _, l := range m.byID {
		of := ownerOf(l.slot.bucket)
		if l.state != LiveRunning && l.state != LivePaused || l.slot.busy || len(l.leases)+l.calls+l.running > 0 || !mine(of) {
			continue
		}
		same := of.tenant == o.tenant
		if found == nil || same && !near || same == near && l.lastUse.Before(found.lastUse) {
			found, near = l, same
		}
	}
	return found
}
