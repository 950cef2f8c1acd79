package orchestrator_test

import (
	"testing"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// TestSuite runs the black-box suite against one replica, over services in memory.
func TestSuite(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	r := c.Start(nil)
	orchestratortest.Run(testkit.Wrap(t), func(testkit.T) orchestratortest.Target { return orchestratortest.Target{Conn: r.Conn} })
}
