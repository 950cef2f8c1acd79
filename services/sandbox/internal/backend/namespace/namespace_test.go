package namespace

import (
	"os"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox/drivertest"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case InitArg0:
		os.Exit(InitMain(os.Args))
	case supervisor.Arg0:
		os.Exit(supervisor.Main(os.Args, map[string]supervisor.Factory{Name: NewSpawner}))
	case attackArg0:
		os.Exit(attack(os.Args))
	}
	if len(os.Args) > 1 && os.Args[1] == "-as-nobody" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		if err := becomeNobody(); err != nil {
			panic(err)
		}
	}
	testkit.LeakMain(m)
}

func newDriver(tb testing.TB, dir string) sandbox.Driver {
	tb.Helper()
	d, err := New(Config{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range d.Probe(tb.Context()) {
		if f.Required && !f.OK {
			testkit.Skip(tb, "namespace", "no %s here: %s; %s", f.Name, f.Detail, f.Fix)
		}
	}
	return d
}

func TestDriver(t *testing.T) { drivertest.Run(t, newDriver) }
