package drivertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

func reason(err error) string { return errdefs.ReasonOf(err) }

var recordCases = []Case{
	{Name: "a repeated effect runs once", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		cmd := sandbox.Command{Script: []byte("echo x >> count; echo done; exit 6"), Effect: "e/1", Hash: "h"}
		first := Exec(tb, in, cmd)
		second := Exec(tb, in, cmd)
		want(tb, "id", second.ID, first.ID)
		want(tb, "repeated", []bool{first.Repeated, second.Repeated}[1], true)
		want(tb, "code", second.Exit.Code, 6)
		want(tb, "output", second.Stdout, "done\n")
		want(tb, "runs", Script(tb, in, "cat count").Stdout, "x\n")
		cmd.Hash = "other"
		if _, err := in.Exec(context.Background(), cmd); reason(err) != sandbox.ReasonEffectMismatch {
			tb.Errorf("the same effect with another command: %v", err)
		}
		r, err := in.Lookup(context.Background(), "e/1")
		if err != nil || r.ID != first.ID || r.Exit.Code != 6 || r.Effect != "e/1" {
			tb.Errorf("Lookup: %+v %v", r, err)
		}
	}},
	{Name: "an effect that is asked for many times at once runs once", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				p, err := in.Exec(context.Background(), sandbox.Command{Script: []byte("echo x >> count; sleep 0.1"), Effect: "e/2", Hash: "h"})
				if err != nil {
					tb.Errorf("Exec: %v", err)
					return
				}
				if r, err := Collect(p); err != nil || r.Exit.Code != 0 {
					tb.Errorf("%+v %v", r, err)
				}
			})
		}
		all.Wait()
		want(tb, "runs", Script(tb, in, "cat count").Stdout, "x\n")
	}},
	{Name: "execs are listed with what they used", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		Script(tb, in, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
		p, err := in.Exec(context.Background(), sandbox.Command{Argv: []string{"sleep", "60"}, Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		defer p.Close()
		list, err := in.Execs(context.Background())
		if err != nil || len(list) != 2 {
			tb.Fatalf("Execs: %+v %v", list, err)
		}
		want(tb, "first", list[0].Exit.State, sandbox.StateExited)
		want(tb, "second", list[1].Exit.State, sandbox.StateRunning)
		want(tb, "title", list[1].Title, "sleep 60")
		if x := list[0].Exit; x.CPU <= 0 || x.Wall <= 0 || x.MemoryPeak <= 0 {
			tb.Errorf("usage is missing: %+v", x)
		}
	}},
	{Name: "effects that are no commands are kept, replaced and removed, however many", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		note := func(i int, state sandbox.State, answer string) {
			r := sandbox.Record{ID: fmt.Sprintf("f%d", i), Effect: fmt.Sprintf("n/%d", i), Kind: sandbox.KindFile, Start: time.Unix(int64(i), 0), Answer: []byte(answer), Exit: sandbox.Exit{State: state}}
			if err := in.Note(context.Background(), r); err != nil {
				tb.Fatal(err)
			}
		}
		for i := range 450 {
			note(i, sandbox.StateExited, strings.Repeat("a", 20_000))
		}
		note(3, sandbox.StateExited, "new")
		note(4, sandbox.StateLost, "")
		all, err := in.Execs(context.Background())
		if err != nil || len(all) != 449 || string(all[3].Answer) != "new" {
			tb.Fatalf("%d records, %v", len(all), err)
		}
		if _, err := in.Lookup(context.Background(), "n/4"); reason(err) != sandbox.ReasonExecNotFound {
			tb.Errorf("the removed one: %v", err)
		}
	}},
	{Name: "records that a snapshot carries answer repeats", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb, func(s *sandbox.Spec) {
			s.Records = []sandbox.Record{{ID: "xold", Effect: "e/9", Hash: "h", Exit: sandbox.Exit{State: sandbox.StateExited, Code: 5, StdoutBytes: 7}}}
		})
		r := Exec(tb, in, sandbox.Command{Argv: []string{"touch", "again"}, Effect: "e/9", Hash: "h"})
		want(tb, "code", r.Exit.Code, 5)
		want(tb, "skipped", r.Skipped+r.Exit.StdoutBytes, 7)
		want(tb, "files", Script(tb, in, "ls").Stdout, "")
	}},
}
