package drivertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// The names of cases that tests of broken drivers ask for.
const (
	CaseNoProcessStays = "no process of a command stays behind"
	CaseHardLimit      = "the hard limit kills the whole tree"
	CaseInstancesApart = "two instances share nothing"
)

var killCases = []Case{
	{Name: CaseNoProcessStays, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		for _, form := range []string{
			"sleep %s & echo ready", "setsid sleep %s & disown; echo ready", "nohup sleep %s >/dev/null 2>&1 & echo ready",
			"(setsid sh -c 'trap \"\" TERM HUP; sleep %s' &) ; sleep 0.1; echo ready",
		} {
			m := mark()
			start := time.Now()
			r := Script(tb, in, fmt.Sprintf(form, m))
			want(tb, "stdout", r.Stdout, "ready\n")
			want(tb, "code", r.Exit.Code, 0)
			if d := time.Since(start); d > 2*time.Second {
				tb.Errorf("%q returned after %s", form, d)
			}
			eventually(tb, "gone: "+form, func() bool { return running(m) == 0 })
		}
	}},
	{Name: CaseHardLimit, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		for _, form := range []string{
			"sleep %[1]s & (setsid sleep %[1]s &) ; sleep %[1]s", "trap '' TERM INT HUP; sleep %[1]s", "kill -STOP $$; : %[1]s", "while :; do :; done; : %[1]s",
		} {
			m := mark()
			start := time.Now()
			r := Exec(tb, in, sandbox.Command{Script: fmt.Appendf(nil, form, m), Hard: 200 * time.Millisecond})
			if !r.Exit.TimedOut || r.Exit.Code == 0 {
				tb.Errorf("%q: %+v", form, r.Exit)
			}
			if d := time.Since(start); d > 2*time.Second {
				tb.Errorf("%q returned after %s", form, d)
			}
			eventually(tb, "gone: "+form, func() bool { return running(m) == 0 })
		}
		want(tb, "a next command", Script(tb, in, "echo ok").Stdout, "ok\n")
	}},
	{Name: "the soft limit lets a command clean up", Run: func(tb testing.TB, e *Env) {
		r := Exec(tb, e.New(tb), sandbox.Command{
			Script: []byte("trap 'echo cleaned; exit 9' TERM; while :; do sleep 0.01; done"), Soft: 200 * time.Millisecond, Hard: 20 * time.Second,
		})
		want(tb, "stdout", r.Stdout, "cleaned\n")
		want(tb, "code", r.Exit.Code, 9)
		want(tb, "timed out", r.Exit.TimedOut, true)
	}},
	{Name: "kill ends the tree of a background command", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		m := mark()
		p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("(setsid sleep " + m + " &); sleep " + m), Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		_ = p.Close()
		eventually(tb, "started", func() bool { return running(m) >= 2 })
		if err := in.Signal(context.Background(), p.ID(), 9); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "gone", func() bool { return running(m) == 0 })
		eventually(tb, "recorded", func() bool {
			r, err := in.Lookup(context.Background(), p.ID())
			return err == nil && r.Exit.State == sandbox.StateExited && r.Exit.Signal == 9
		})
	}},
}
