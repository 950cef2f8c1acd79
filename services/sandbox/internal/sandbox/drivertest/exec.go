package drivertest

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var execCases = []Case{
	{Name: "exit code and both streams are kept apart", Run: func(tb testing.TB, e *Env) {
		r := Script(tb, e.New(tb), "printf out; printf err >&2; exit 3")
		want(tb, "code", r.Exit.Code, 3)
		want(tb, "stdout", r.Stdout, "out")
		want(tb, "stderr", r.Stderr, "err")
		want(tb, "state", r.Exit.State, sandbox.StateExited)
	}},
	{Name: "arguments are not interpreted", Run: func(tb testing.TB, e *Env) {
		args := []string{"printf", "%s|", "$(id)", "a b", "*", "it's \"q\"", "", "ü\n"}
		r := Exec(tb, e.New(tb), sandbox.Command{Argv: args})
		want(tb, "stdout", r.Stdout, strings.Join(args[2:], "|")+"|")
	}},
	{Name: "nothing of the service's environment is passed on", Run: func(tb testing.TB, e *Env) {
		if err := os.Setenv("GANTRY_TEST_CANARY", "zq1"); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = os.Unsetenv("GANTRY_TEST_CANARY") })
		r := Exec(tb, e.New(tb), sandbox.Command{Argv: []string{"env"}, Env: []string{"MINE=1", "PATH=/usr/bin:/bin"}})
		var names []string
		for line := range strings.Lines(r.Stdout) {
			name, _, _ := strings.Cut(line, "=")
			if name != "GANTRY_EXEC" { // the process driver's mark
				names = append(names, name)
			}
		}
		slices.Sort(names)
		want(tb, "variables", strings.Join(names, " "), "HOME LANG MINE PATH TERM")
		all := Script(tb, e.New(tb), "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c zq1; true")
		if e.Driver.Capabilities().Isolation {
			want(tb, "other processes' environments with the canary", strings.TrimSpace(all.Stdout), "0")
		}
	}},
	{Name: "a script may be larger than arguments may", Run: func(tb testing.TB, e *Env) {
		script := append(bytes.Repeat([]byte("# 0123456789\n"), 100_000), "echo end"...)
		r := Exec(tb, e.New(tb), sandbox.Command{Script: script})
		want(tb, "stdout", r.Stdout, "end\n")
	}},
	{Name: "a script runs under its interpreter", Run: func(tb testing.TB, e *Env) {
		r := Exec(tb, e.New(tb), sandbox.Command{Script: []byte("print $ARGV[0] // 'none', 6*7"), Interpreter: []string{"perl"}})
		want(tb, "stdout", r.Stdout, "none42")
	}},
	{Name: "input reaches the command and ends", Run: func(tb testing.TB, e *Env) {
		p, err := e.New(tb).Exec(context.Background(), sandbox.Command{Argv: []string{"cat"}, Stdin: true})
		if err != nil {
			tb.Fatal(err)
		}
		for _, s := range []string{"one ", "two"} {
			if err := p.WriteStdin([]byte(s)); err != nil {
				tb.Fatal(err)
			}
		}
		if err := p.CloseStdin(); err != nil {
			tb.Fatal(err)
		}
		r, err := Collect(p)
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "stdout", r.Stdout, "one two")
	}},
	{Name: "without input a command reads end of file at once", Run: func(tb testing.TB, e *Env) {
		start := time.Now()
		r := Script(tb, e.New(tb), "read x; echo got:$x; cat")
		want(tb, "stdout", r.Stdout, "got:\n")
		if d := time.Since(start); d > 5*time.Second {
			tb.Errorf("it took %s", d)
		}
	}},
	{Name: "the working directory is the workspace, or below it", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		root := strings.TrimSpace(Script(tb, in, "mkdir -p sub/dir; pwd").Stdout)
		r := Exec(tb, in, sandbox.Command{Argv: []string{"pwd"}, Dir: "sub/dir"})
		want(tb, "pwd", r.Stdout, root+"/sub/dir\n")
		r = Exec(tb, in, sandbox.Command{Argv: []string{"pwd"}, Dir: "none"})
		want(tb, "code", r.Exit.Code, 127)
		want(tb, "reason", r.Exit.StartReason, sandbox.ReasonCwdNotFound)
	}},
	{Name: "a missing program is told from a failing one", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		for _, argv := range [][]string{{"no-such-program-here"}, {"./no/such"}} {
			r := Exec(tb, in, sandbox.Command{Argv: argv})
			want(tb, "code", r.Exit.Code, 127)
			want(tb, "reason", r.Exit.StartReason, sandbox.ReasonCommandNotFound)
		}
	}},
	{Name: "malformed commands are refused", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		for name, cmd := range map[string]sandbox.Command{
			"nothing": {}, "blank": {Argv: []string{"  "}}, "both": {Argv: []string{"a"}, Script: []byte("b")}, "nul": {Argv: []string{"a\x00b"}},
			"variable": {Argv: []string{"true"}, Env: []string{"=x"}}, "limit": {Argv: []string{"true"}, Hard: -1},
			"long": {Argv: []string{"true", strings.Repeat("x", sandbox.MaxArgBytes)}},
		} {
			if _, err := in.Exec(context.Background(), cmd); reason(err) != sandbox.ReasonCommandInvalid {
				tb.Errorf("%s: got %v, want %s", name, err, sandbox.ReasonCommandInvalid)
			}
		}
	}},
	{Name: "a signal reaches the command", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("trap 'echo caught; exit 5' TERM; echo on; while :; do sleep 0.01; done")})
		if err != nil {
			tb.Fatal(err)
		}
		if ev, err := p.Recv(); err != nil || ev.Output == nil {
			tb.Fatalf("first event: %v %v", ev, err)
		}
		if err := in.Signal(context.Background(), p.ID(), 15); err != nil {
			tb.Fatal(err)
		}
		r, err := Collect(p)
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "code", r.Exit.Code, 5)
		want(tb, "stdout", r.Stdout, "caught\n")
		if err := in.Signal(context.Background(), p.ID(), 15); reason(err) != sandbox.ReasonExecEnded {
			tb.Errorf("a signal after the end: %v", err)
		}
	}},
	{Name: "sixteen commands at a time", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("echo $$ > $$; cat $$; exit 4")})
				if err != nil {
					tb.Errorf("Exec: %v", err)
					return
				}
				if r, err := Collect(p); err != nil || r.Exit.Code != 4 || r.Stdout == "" {
					tb.Errorf("%+v %v", r, err)
				}
			})
		}
		all.Wait()
	}},
}
