package e2e

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/identity"
)

// Tenants of the tests. A user id is not unique among tenants, and the tests use that. Agents of the default tenant are
// directories; the other tenant is given the same agents through the API.
const (
	acme   = identity.DefaultTenant
	globex = "globex"
)

// Run runs the suite. Each test has users of its own, so the order does not matter, and a target may be in use.
func Run(t *testing.T, g Target) {
	putAgents(t, g, globex)
	t.Run("the demo does what it says", func(t *testing.T) { testDemo(t, g) })
	t.Run("a fact is known to the user's next session and to nobody else", func(t *testing.T) { testMemory(t, g) })
	t.Run("an approval is waited for", func(t *testing.T) { testApproval(t, g) })
	t.Run("a cancelled run stops what it does", func(t *testing.T) { testCancel(t, g) })
	t.Run("a run can be followed from any event on", func(t *testing.T) { testAttach(t, g) })
	t.Run("a repeated request joins its run", func(t *testing.T) { testRepeat(t, g) })
	t.Run("tenants and users work at once and find nothing of each other", func(t *testing.T) { testTenants(t, g) })
	t.Run("what a run did is there after a restart", func(t *testing.T) { testRestart(t, g) })
}

// unique makes a name that nothing else has.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:10]) }
