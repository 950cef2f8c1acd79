package suite_test

import (
	"context"
	"os"
	"testing"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fstest"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
	"github.com/gantry-agents/gantry/services/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	os.Exit(m.Run())
}

// start runs the suite on a directory that goes with the test. Any agent is known: the suites make names of their own.
func start(t *testing.T) *suite.Suite {
	t.Helper()
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Ollama = t.TempDir(), "none"
	s, err := suite.Start(t.Context(), cfg, suite.Options{Private: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestFilesSuite runs the one suite of files on each implementer of a whole Gantry: the workspace service, the files inside a sandbox, and
// the router over both, on each side of it.
func TestFilesSuite(t *testing.T) {
	s := start(t)
	layout := fstest.Profile{Layers: true, History: true, ChangeSets: true, Watch: true, Effects: true, ArbitraryNames: true}
	inside := fstest.Profile{Effects: true, ArbitraryNames: true, EmptyDirectories: true, UsageInBlocks: true}
	routed := fstest.Profile{SomeLayers: true, Effects: true, ArbitraryNames: true, EmptyDirectories: true, UsageInBlocks: true}
	kept := routed
	kept.SomeHistory = true
	for _, tt := range []struct {
		name, service, prefix string
		profile               fstest.Profile
	}{
		{"workspace", suite.Workspace, "", layout},
		{"sandbox", suite.Sandbox, "", inside},
		{"router, where the workspace service owns the paths", suite.Orchestrator, "knowledge", kept},
		{"router, where the sandbox owns them", suite.Orchestrator, "work", routed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.service != suite.Workspace && os.Geteuid() != 0 {
				testkit.Skip(t, "namespace", "sandboxes are tested as root")
			}
			fstest.Run(testkit.Wrap(t), func(testkit.T) fstest.Target {
				target := fstest.Target{Client: fsv1.NewFilesystemServiceClient(s.Conn(tt.service)), Profile: tt.profile, Prefix: tt.prefix}
				if tt.service == suite.Orchestrator {
					target.Context = knownAgent
				}
				return target
			})
		})
	}
}

// knownAgent keeps the suite's identities apart by user and session, since the router serves only agents that exist.
func knownAgent(ctx context.Context) context.Context {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return ctx
	}
	if id.User != "" {
		id.User = id.Agent + "/" + id.User
	}
	if id.Session != "" {
		id.Session = id.Agent + "/" + id.Session
	}
	id.Agent = identity.DefaultAgent
	return identity.NewContext(ctx, id)
}
