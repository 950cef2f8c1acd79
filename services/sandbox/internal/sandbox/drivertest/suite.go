package drivertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Factory returns a driver on a state directory. Calls with one directory see the same instances, as a restarted service does.
type Factory func(tb testing.TB, dir string) sandbox.Driver

// Case is one property of a driver.
type Case struct {
	Name string
	// Needs says for which drivers the case is meant. Nil: for all.
	Needs func(sandbox.Capabilities) bool
	Run   func(tb testing.TB, e *Env)
}

// Env is what a case works with.
type Env struct {
	Driver  sandbox.Driver
	Dir     string
	factory Factory
}

// Cases returns the whole suite.
func Cases() []Case {
	var all []Case
	for _, list := range [][]Case{execCases, killCases, outputCases, recordCases, lifeCases, limitCases, treeCases} {
		all = append(all, list...)
	}
	return all
}

// Run runs the suite.
func Run(t *testing.T, factory Factory) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { RunCase(t, c, factory) })
	}
}

// RunCase runs one case, if it is meant for the driver.
func RunCase(tb testing.TB, c Case, factory Factory) {
	dir := tb.TempDir()
	e := &Env{Driver: factory(tb, dir), Dir: dir, factory: factory}
	if c.Needs != nil && !c.Needs(e.Driver.Capabilities()) {
		tb.Skip("not meant for this driver")
	}
	c.Run(tb, e)
}

// New makes an instance that is destroyed at the end of the case.
func (e *Env) New(tb testing.TB, change ...func(*sandbox.Spec)) sandbox.Instance {
	tb.Helper()
	spec := sandbox.Spec{
		ID: "t" + strings.ToLower(rand.Text()[:12]), Bucket: "default/user/a/b", Generation: 1, Limits: sandbox.DefaultLimits(), Created: time.Now(),
	}
	for _, f := range change {
		f(&spec)
	}
	in, err := e.Driver.Create(context.Background(), spec)
	if err != nil {
		tb.Fatalf("Create: %v", err)
	}
	tb.Cleanup(func() {
		if err := in.Destroy(context.Background()); err != nil {
			tb.Errorf("Destroy: %v", err)
		}
	})
	return in
}

// Restarted returns another driver on the same directory.
func (e *Env) Restarted(tb testing.TB) sandbox.Driver { return e.factory(tb, e.Dir) }

// Result is a finished exec with its output.
type Result struct {
	ID             string
	Stdout, Stderr string
	Skipped        int64
	Exit           sandbox.Exit
	Repeated       bool
}

// Collect follows a process to its end.
func Collect(p sandbox.Process) (r Result, err error) {
	defer p.Close()
	r.ID, r.Repeated = p.ID(), p.Repeated()
	var out, errs bytes.Buffer
	for {
		e, err := p.Recv()
		if err != nil {
			return r, err
		}
		if e.Exit != nil {
			r.Exit = *e.Exit
			r.Stdout, r.Stderr = out.String(), errs.String()
			if _, err := p.Recv(); !errors.Is(err, io.EOF) {
				return r, fmt.Errorf("after the exit Recv gave %v, not io.EOF", err)
			}
			return r, nil
		}
		r.Skipped += e.Output.Skipped
		if e.Output.Stream == sandbox.Stderr {
			errs.Write(e.Output.Data)
		} else {
			out.Write(e.Output.Data)
		}
	}
}

// patience bounds a command of the suite: a driver that hangs fails.
const patience = 12 * time.Second

// Exec runs a command to its end.
func Exec(tb testing.TB, in sandbox.Instance, cmd sandbox.Command) Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := in.Exec(ctx, cmd)
	if err != nil {
		tb.Fatalf("Exec(%.60q): %v", append(cmd.Argv, string(cmd.Script)), err)
	}
	r, err := Collect(p)
	if err != nil {
		tb.Fatalf("follow(%.60q): %v", append(cmd.Argv, string(cmd.Script)), err)
	}
	return r
}

// Script runs a script to its end.
func Script(tb testing.TB, in sandbox.Instance, script string) Result {
	tb.Helper()
	return Exec(tb, in, sandbox.Command{Script: []byte(script)})
}

// mark is an argument by which a process can be found on the host.
func mark() string { return fmt.Sprintf("4%09d.%d", os.Getpid(), time.Now().UnixNano()%1e9) }

// running counts the host's processes that have the mark in their command line.
func running(mark string) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if bytes.Contains(text, []byte(mark)) {
			n++
		}
	}
	return n
}

// eventually asks until the answer is yes.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	testkit.Eventually(tb, 10*time.Second, func() error {
		if !ok() {
			return errors.New("not " + what)
		}
		return nil
	})
}

func want[T comparable](tb testing.TB, what string, got, expected T) {
	tb.Helper()
	if got != expected {
		tb.Errorf("%s: got %.300s, want %.300s", what, fmt.Sprint(got), fmt.Sprint(expected))
	}
}
