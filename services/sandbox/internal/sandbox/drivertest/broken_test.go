package drivertest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox/internal/backend/process"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox/drivertest"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

func TestMain(m *testing.M) {
	if os.Args[0] == supervisor.Arg0 {
		os.Exit(supervisor.Main(os.Args, map[string]supervisor.Factory{
			process.Name: process.NewSpawner, leaky: newFaulty, forgetful: newFaulty,
		}))
	}
	os.Exit(m.Run())
}

// The faults that the suite must notice.
const (
	leaky     = "leaky"     // leaves a child process behind
	forgetful = "forgetful" // does not kill at the time limit
	mixed     = "mixed"     // ignores the bucket: everybody gets the first instance
)

// faulty is the process driver with a fault.
type faulty struct {
	sandbox.Driver
	dir, fault string
	first      sandbox.Instance
}

func (f *faulty) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if f.fault == mixed {
		if f.first == nil {
			in, err := f.Driver.Create(ctx, spec)
			if err != nil {
				return nil, err
			}
			f.first = in
		}
		return f.first, nil
	}
	spec.Driver = f.fault
	return supervisor.Launch(ctx, f.dir, spec, struct{}{}, func(string, sandbox.Spec) error { return nil })
}

// faultySpawner is the part of it in the supervisor.
type faultySpawner struct {
	supervisor.Spawner
	fault string
}

func newFaulty(dir string, spec sandbox.Spec, config json.RawMessage) (supervisor.Spawner, error) {
	s, err := process.NewSpawner(dir, spec, config)
	return &faultySpawner{s, spec.Driver}, err
}

func (f *faultySpawner) Spawn(req supervisor.SpawnRequest) (supervisor.Child, error) {
	c, err := f.Spawner.Spawn(req)
	return &faultyChild{c, f.fault}, err
}

type faultyChild struct {
	supervisor.Child
	fault string
}

func (c *faultyChild) Kill() {
	if c.fault == forgetful {
		_ = c.Signal(15) // asks, and hopes
		return
	}
	c.Child.Kill()
}

func (c *faultyChild) Finish() supervisor.Usage {
	if c.fault == leaky {
		return supervisor.Usage{}
	}
	return c.Child.Finish()
}

func TestSuiteNoticesFaults(t *testing.T) {
	for fault, names := range map[string][]string{
		leaky:     {drivertest.CaseNoProcessStays},
		forgetful: {drivertest.CaseHardLimit},
		mixed:     {drivertest.CaseInstancesApart},
	} {
		for _, c := range drivertest.Cases() {
			if !strings.Contains(strings.Join(names, "|"), c.Name) {
				continue
			}
			factory := func(tb testing.TB, dir string) sandbox.Driver {
				d, err := process.New(process.Config{Dir: dir, Enabled: true})
				if err != nil {
					tb.Fatal(err)
				}
				return &faulty{Driver: d, dir: dir, fault: fault}
			}
			failures := testkit.Failures(func(tb testkit.T) { drivertest.RunCase(tb, c, factory) })
			if len(failures) == 0 {
				t.Errorf("a %s driver passes %q", fault, c.Name)
			}
			t.Logf("%s: %d failures in %q", fault, len(failures), c.Name)
		}
	}
	killLeftovers()
}

// killLeftovers ends what the faulty drivers left on purpose.
func killLeftovers() {
	groups, _ := filepath.Glob("/sys/fs/cgroup/unified/gantry-process/t*")
	more, _ := filepath.Glob("/sys/fs/cgroup/gantry-process/t*")
	for _, g := range append(groups, more...) {
		_ = os.WriteFile(filepath.Join(g, "cgroup.kill"), []byte("1"), 0)
	}
}
