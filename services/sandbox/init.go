package sandbox

import (
	"os"

	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/namespace"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// MaybeInit must be the first call of main in every binary that runs the service, and of TestMain in tests that do. When the binary was started as a supervisor or as the
// first process of a sandbox, it does that work and ends the process; otherwise it returns at once.
func MaybeInit() {
	switch os.Args[0] {
	case namespace.InitArg0:
		os.Exit(namespace.InitMain(os.Args))
	case supervisor.Arg0:
		os.Exit(supervisor.Main(os.Args, factories()))
	}
}
