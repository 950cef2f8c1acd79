package process

import (
	"errors"
	"os"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox/drivertest"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

func TestMain(m *testing.M) {
	if os.Args[0] == supervisor.Arg0 {
		os.Exit(supervisor.Main(os.Args, map[string]supervisor.Factory{Name: NewSpawner}))
	}
	testkit.LeakMain(m)
}

func newDriver(tb testing.TB, dir string) sandbox.Driver {
	tb.Helper()
	d, err := New(Config{Dir: dir, Enabled: true})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestDriver(t *testing.T) { drivertest.Run(t, newDriver) }

func TestRefusesUnlessConfigured(t *testing.T) {
	d, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Create(t.Context(), sandbox.Spec{ID: "s"})
	if !errors.Is(err, errdefs.ErrFailedPrecondition) || errdefs.ReasonOf(err) != sandbox.ReasonDriverNotConfigured {
		t.Errorf("Create: %v", err)
	}
}

func TestHostDirMustBeNamed(t *testing.T) {
	root := t.TempDir()
	d, err := New(Config{Dir: t.TempDir(), Enabled: true, HostRoots: []string{root}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", root+"/out"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/etc", root + "/..", root + "/out", root + "/none"} {
		if _, err := d.Create(t.Context(), sandbox.Spec{ID: "s", HostDir: dir}); !errors.Is(err, errdefs.ErrPermissionDenied) {
			t.Errorf("Create in %s: %v", dir, err)
		}
	}
	in, err := d.Create(t.Context(), sandbox.Spec{ID: "s", HostDir: root, Limits: sandbox.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Destroy(t.Context())
	if got := drivertest.Script(t, in, "pwd").Stdout; got != root+"\n" {
		t.Errorf("the command ran in %q", got)
	}
}
