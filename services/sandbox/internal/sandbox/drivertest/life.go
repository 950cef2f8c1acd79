package drivertest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var lifeCases = []Case{
	{Name: "a probed driver names everything that it needs", Run: func(tb testing.TB, e *Env) {
		for _, f := range e.Driver.Probe(context.Background()) {
			if f.Name == "" || f.Detail == "" || !f.OK && f.Fix == "" {
				tb.Errorf("incomplete: %+v", f)
			}
			if f.Required && !f.OK {
				tb.Errorf("the driver works without %q", f.Name)
			}
		}
	}},
	{Name: CaseInstancesApart, Run: func(tb testing.TB, e *Env) {
		a := e.New(tb, func(s *sandbox.Spec) { s.Bucket = "default/user/agent/ana" })
		b := e.New(tb, func(s *sandbox.Spec) { s.Bucket = "default/user/agent/ben" })
		r := Exec(tb, a, sandbox.Command{Script: []byte("echo secret > mine; echo secret > $HOME/mine; echo secret > /tmp/mine-$$"), Effect: "same", Hash: "h"})
		for _, dir := range []string{".", "$HOME"} {
			want(tb, "files of the other in "+dir, Script(tb, b, "ls -A "+dir).Stdout, "")
		}
		if _, err := b.Lookup(context.Background(), r.ID); reason(err) != sandbox.ReasonExecNotFound {
			tb.Errorf("the other's exec can be looked up: %v", err)
		}
		if _, err := b.Attach(context.Background(), "same", 0); reason(err) != sandbox.ReasonExecNotFound {
			tb.Errorf("the other's effect can be followed: %v", err)
		}
		want(tb, "the same effect id elsewhere", Exec(tb, b, sandbox.Command{Argv: []string{"true"}, Effect: "same", Hash: "x"}).Repeated, false)
	}},
	{Name: "destroy leaves no trace and may be repeated", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		m := mark()
		p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("(setsid sleep " + m + " &); sleep " + m), Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "started", func() bool { return running(m) >= 2 })
		for range 2 {
			if err := in.Destroy(context.Background()); err != nil {
				tb.Fatal(err)
			}
		}
		want(tb, "processes", running(m), 0)
		if _, err := p.Recv(); err == nil {
			// An exit is fine; what must not happen is waiting for ever.
			_ = p.Close()
		}
		if _, err := in.Exec(context.Background(), sandbox.Command{Argv: []string{"true"}}); reason(err) != sandbox.ReasonSandboxLost {
			tb.Errorf("Exec afterwards: %v", err)
		}
		left, _ := filepath.Glob(filepath.Join(e.Dir, "*", "spec.json"))
		want(tb, "directories", len(left), 0)
		eventually(tb, "no control group", func() bool { return len(groups(in.Spec().ID)) == 0 })
	}},
	{Name: "a restarted service finds instances with their running commands", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("echo before; read x; echo after; exit 8"), Stdin: true, Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		if ev, err := p.Recv(); err != nil || ev.Output == nil {
			tb.Fatalf("%+v %v", ev, err)
		}
		_ = p.Close()
		live, lost, err := e.Restarted(tb).Adopt(context.Background())
		if err != nil || len(live) != 1 || len(lost) != 0 {
			tb.Fatalf("Adopt: %d live, %d lost, %v", len(live), len(lost), err)
		}
		want(tb, "bucket", live[0].Spec().Bucket, in.Spec().Bucket)
		again, err := live[0].Attach(context.Background(), p.ID(), 0)
		if err != nil {
			tb.Fatal(err)
		}
		if err := again.CloseStdin(); err != nil {
			tb.Fatal(err)
		}
		r, err := Collect(again)
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "output", r.Stdout, "before\nafter\n")
		want(tb, "code", r.Exit.Code, 8)
	}},
	{Name: "a dead supervisor takes everything with it, and its running commands are lost", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		m := mark()
		done := Exec(tb, in, sandbox.Command{Argv: []string{"true"}, Effect: "done", Hash: "h"})
		p, err := in.Exec(context.Background(), sandbox.Command{Argv: []string{"sleep", m}, Background: true, Effect: "open", Hash: "h"})
		if err != nil {
			tb.Fatal(err)
		}
		defer p.Close()
		eventually(tb, "started", func() bool { return running(m) == 1 })
		text, err := os.ReadFile(filepath.Join(e.Dir, in.Spec().ID, "supervisor.pid"))
		if err != nil {
			tb.Fatal(err)
		}
		pid, _ := strconv.Atoi(string(text))
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "the supervisor is gone", func() bool { return !alive(pid) })
		live, lost, err := e.Restarted(tb).Adopt(context.Background())
		if err != nil || len(live) != 0 || len(lost) != 1 {
			tb.Fatalf("Adopt: %d live, %d lost, %v", len(live), len(lost), err)
		}
		eventually(tb, "no process", func() bool { return running(m) == 0 })
		states := map[string]sandbox.State{}
		for _, r := range lost[0].Records {
			states[r.ID] = r.Exit.State
		}
		want(tb, "finished", states[done.ID], sandbox.StateExited)
		want(tb, "running", states[p.ID()], sandbox.StateLost)
		want(tb, "directory", len(dirs(e.Dir)), 0)
		eventually(tb, "no control group", func() bool { return len(groups(in.Spec().ID)) == 0 })
		if _, err := in.Exec(context.Background(), sandbox.Command{Argv: []string{"true"}}); reason(err) != sandbox.ReasonSandboxLost {
			tb.Errorf("Exec afterwards: %v", err)
		}
	}},
	{Name: "frozen commands do not move", Needs: func(c sandbox.Capabilities) bool { return c.Snapshots }, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("while :; do echo x >> f; done"), Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		defer p.Close()
		tree := Files(tb, in)
		size := func() int64 {
			e, err := tree.Stat(context.Background(), "f")
			if err != nil {
				return 0
			}
			return e.Size
		}
		eventually(tb, "writing", func() bool { return size() > 0 })
		for range 2 {
			if err := in.Freeze(context.Background()); err != nil {
				tb.Fatal(err)
			}
		}
		frozen := size()
		// The same work is done elsewhere meanwhile.
		want(tb, "another instance", Script(tb, e.New(tb), "i=0; while [ $i -lt 1000 ]; do echo x >> f; i=$((i+1)); done; echo done").Stdout, "done\n")
		want(tb, "size while frozen", size(), frozen)
		if err := in.Thaw(context.Background()); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "writing again", func() bool { return size() > frozen })
	}},
}

// alive says whether a process exists and has not ended.
func alive(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return !strings.HasPrefix(string(rest), "Z") && !strings.HasPrefix(string(rest), "X")
}

// groups lists the control groups that bear the name of an instance.
func groups(id string) []string {
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup/*/%", "/sys/fs/cgroup/*/*/%", "/sys/fs/cgroup/*/*/*/%", "/sys/fs/cgroup/*/*/*/*/%"} {
		found, _ := filepath.Glob(strings.ReplaceAll(pattern, "%", id))
		out = append(out, found...)
	}
	return out
}

func dirs(parent string) []string {
	found, _ := filepath.Glob(filepath.Join(parent, "t*"))
	return found
}

// Files opens the workspace of an instance until the end of the case.
func Files(tb testing.TB, in sandbox.Instance) sandbox.Tree {
	tb.Helper()
	tree, err := in.Files(context.Background(), sandbox.AsCommand)
	if err != nil {
		tb.Fatalf("Files: %v", err)
	}
	tb.Cleanup(func() { _ = tree.Close() })
	return tree
}
