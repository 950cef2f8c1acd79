package sandbox

import (
	"log/slog"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// crowd is a manager with sandboxes that nobody holds, the first one unused for longest. Buckets are those of sessions.
func crowd(set Settings, owners ...owner) (*Manager, []*Live) {
	m := NewManager(nil, nil, nil, set, slog.New(slog.DiscardHandler), time.Now)
	var all []*Live
	for i, o := range owners {
		bucket := identity.Bucket{Tenant: o.tenant, Scope: identity.ScopeSession, Agent: "a", User: o.user, Session: string(rune('a' + i))}.Key()
		l := &Live{state: LiveRunning, lastUse: time.Unix(int64(i), 0), slot: m.slot(bucket)}
		m.byID[bucket] = l
		m.occupy(bucket, 1)
		all = append(all, l)
	}
	return m, all
}

func TestNarrowestBoundIsNamedFirst(t *testing.T) {
	owners := []owner{{"t", "ana"}, {"t", "ana"}, {"t", "ben"}, {"u", "ana"}}
	for name, c := range map[string]struct {
		set  Settings
		who  owner
		want string
	}{
		"room for all":            {Settings{MaxSandboxes: 10}, owner{"t", "ana"}, ""},
		"user":                    {Settings{MaxSandboxes: 4, MaxPerTenant: 3, MaxPerUser: 2}, owner{"t", "ana"}, "user"},
		"same name elsewhere":     {Settings{MaxSandboxes: 10, MaxPerUser: 2}, owner{"u", "ana"}, ""},
		"tenant":                  {Settings{MaxSandboxes: 4, MaxPerTenant: 3, MaxPerUser: 2}, owner{"t", "cem"}, "tenant"},
		"half of the machine":     {Settings{MaxSandboxes: 6}, owner{"t", "cem"}, "tenant"},
		"other half":              {Settings{MaxSandboxes: 6}, owner{"v", "cem"}, ""},
		"machine":                 {Settings{MaxSandboxes: 4, MaxPerTenant: 4}, owner{"v", "cem"}, "sandboxes"},
		"one place for one":       {Settings{MaxSandboxes: 1}, owner{"v", "cem"}, "sandboxes"},
		"users without a bound":   {Settings{MaxSandboxes: 10, MaxPerTenant: 10}, owner{"t", "ana"}, ""},
		"anonymous are one user":  {Settings{MaxSandboxes: 10, MaxPerTenant: 10, MaxPerUser: 1}, owner{"t", ""}, ""},
		"nobody's is not of them": {Settings{MaxSandboxes: 10, MaxPerTenant: 10, MaxPerUser: 1}, owner{"t", "ben"}, "user"},
	} {
		m, _ := crowd(c.set, owners...)
		if got, _ := m.reached(c.who); got.name != c.want {
			t.Errorf("%s: %q, want %q", name, got.name, c.want)
		}
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	m, all := crowd(Settings{MaxSandboxes: 10}, owner{"t", "ana"}, owner{"u", "ana"})
	for _, l := range all {
		m.occupy(l.slot.bucket, -1)
	}
	if m.live != 0 || len(m.ofTenant) != 0 || len(m.ofUser) != 0 {
		t.Errorf("left: %d %v %v", m.live, m.ofTenant, m.ofUser)
	}
}

func TestIdleSandboxOfTheSameTenantMakesRoomFirst(t *testing.T) {
	set := Settings{MaxSandboxes: 4, MaxPerTenant: 4}
	m, all := crowd(set, owner{"u", "ana"}, owner{"t", "ana"}, owner{"t", "ben"}, owner{"u", "ben"})
	choose := func(o owner) *Live {
		b, full := m.reached(o)
		if !full {
			t.Fatal("there is room")
		}
		return m.victim(o, b.mine)
	}
	if got := choose(owner{"t", "cem"}); got != all[1] {
		t.Errorf("for tenant t: %+v", got)
	}
	if got := choose(owner{"v", "cem"}); got != all[0] {
		t.Errorf("for a tenant without any: %+v", got)
	}
	all[1].calls, all[2].leases = 1, map[string]*Lease{"l": {}}
	if got := choose(owner{"t", "cem"}); got != all[0] {
		t.Errorf("when those of the tenant are held: %+v", got)
	}
	all[0].running, all[3].state = 1, LiveStopping
	if got := choose(owner{"t", "cem"}); got != nil {
		t.Errorf("when none is idle: %+v", got)
	}
	m.set.MaxPerTenant = 2
	all[0].running = 0
	if got := choose(owner{"t", "cem"}); got != nil {
		t.Errorf("others' make no room below the tenant's own bound: %+v", got)
	}
}
