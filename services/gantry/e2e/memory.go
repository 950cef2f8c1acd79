package e2e

import (
	"strings"
	"testing"
)

// testMemory tells a fact in one session and asks for it in others.
func testMemory(t *testing.T, g Target) {
	c := g.clients()
	ana, ben, code := unique("ana"), unique("ben"), unique("code")
	mustCall(t, g.as(t, acme, "helper", ana, "s1"), c, "Remember that my locker code is "+code+".")
	for _, asks := range []struct {
		who, tenant, agent, user string
		knows                    bool
	}{
		{"the same user", acme, "helper", ana, true}, {"another user", acme, "helper", ben, false},
		{"the user of that name in another tenant", globex, "helper", ana, false}, {"the same user with another agent", acme, "reviewer", ana, false},
	} {
		answer := mustCall(t, g.as(t, asks.tenant, asks.agent, asks.user, unique("s")), c, "What is my locker code?")
		if strings.Contains(answer, code) != asks.knows {
			t.Errorf("%s is told: %q", asks.who, answer)
		}
	}
}
