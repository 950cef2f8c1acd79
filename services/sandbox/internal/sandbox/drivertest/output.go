package drivertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var outputCases = []Case{
	{Name: "large output on both streams is drained and counted", Run: func(tb testing.TB, e *Env) {
		start := time.Now()
		r := Script(tb, e.New(tb), "for i in $(seq 128); do head -c 65536 /dev/zero | tr '\\0' o; head -c 65536 /dev/zero | tr '\\0' e >&2; done")
		want(tb, "stdout", int64(len(r.Stdout)), 8<<20)
		want(tb, "stderr", int64(len(r.Stderr)), 8<<20)
		want(tb, "counted stdout", r.Exit.StdoutBytes, 8<<20)
		want(tb, "counted stderr", r.Exit.StderrBytes, 8<<20)
		want(tb, "stdout alone", strings.Trim(r.Stdout, "o"), "")
		if d := time.Since(start); d > 20*time.Second {
			tb.Errorf("it took %s", d)
		}
	}},
	{Name: "a full log keeps the beginning and the end", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		p, err := in.Exec(context.Background(), sandbox.Command{
			Script: []byte("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo last"), LogBytes: 2 << 20,
		})
		if err != nil {
			tb.Fatal(err)
		}
		_ = p.Close() // a caller that goes away does not stop the command, or the reading
		eventually(tb, "ended", func() bool {
			r, err := in.Lookup(context.Background(), p.ID())
			return err == nil && r.Exit.State == sandbox.StateExited
		})
		p, err = in.Attach(context.Background(), p.ID(), 0)
		if err != nil {
			tb.Fatal(err)
		}
		r, err := Collect(p)
		if err != nil {
			tb.Fatal(err)
		}
		if !strings.HasPrefix(r.Stdout, "first\n") || !strings.HasSuffix(r.Stdout, "last\n") {
			tb.Errorf("the log begins with %.20q and ends with %.20q", r.Stdout, r.Stdout[max(0, len(r.Stdout)-20):])
		}
		want(tb, "counted", r.Exit.StdoutBytes, 20_000_011)
		want(tb, "kept and skipped", int64(len(r.Stdout))+r.Skipped, 20_000_011)
		if len(r.Stdout) > 2<<20 {
			tb.Errorf("%d bytes were kept", len(r.Stdout))
		}
	}},
	{Name: "bytes come through as they are", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		r := Script(tb, in, `printf '\377\376A\000\n'; exit 3`)
		want(tb, "stdout", r.Stdout, "\xff\xfeA\x00\n")
		want(tb, "code", r.Exit.Code, 3)
		r = Script(tb, in, `perl -e 'print "\xe6\xbc\xa2" x 700000'`)
		want(tb, "joined characters", r.Stdout == strings.Repeat("漢", 700_000), true)
	}},
	{Name: "an exec can be followed from any offset, again and again", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		r := Script(tb, in, "printf 0123456789abc")
		for _, c := range []struct {
			offset int64
			want   string
		}{{0, "0123456789abc"}, {4, "456789abc"}, {11, "bc"}, {13, ""}, {99, ""}} {
			p, err := in.Attach(context.Background(), r.ID, c.offset)
			if err != nil {
				tb.Fatal(err)
			}
			got, err := Collect(p)
			if err != nil {
				tb.Fatal(err)
			}
			want(tb, "output", got.Stdout+got.Stderr, c.want)
			want(tb, "code", got.Exit.Code, 0)
		}
		if _, err := in.Attach(context.Background(), "xnone", 0); reason(err) != sandbox.ReasonExecNotFound {
			tb.Errorf("an unknown exec: %v", err)
		}
	}},
	{Name: "output streams while the command runs", Run: func(tb testing.TB, e *Env) {
		p, err := e.New(tb).Exec(context.Background(), sandbox.Command{Script: []byte("echo one; read x; echo two"), Stdin: true})
		if err != nil {
			tb.Fatal(err)
		}
		ev, err := p.Recv()
		if err != nil || ev.Output == nil || string(ev.Output.Data) != "one\n" {
			tb.Fatalf("first event: %+v %v", ev, err)
		}
		if err := p.WriteStdin([]byte("\n")); err != nil {
			tb.Fatal(err)
		}
		r, err := Collect(p)
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "rest", r.Stdout, "two\n")
	}},
	{Name: "following ends with the caller's context, the command does not", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		ctx, cancel := context.WithCancel(context.Background())
		p, err := in.Exec(ctx, sandbox.Command{Script: []byte("read x; echo went on > done"), Stdin: true, Background: true})
		if err != nil {
			tb.Fatal(err)
		}
		cancel()
		if _, err := p.Recv(); err == nil {
			tb.Error("Recv gave an event after the context had ended")
		}
		_ = p.Close()
		again, err := in.Attach(context.Background(), p.ID(), 0)
		if err != nil {
			tb.Fatal(err)
		}
		if err := again.CloseStdin(); err != nil {
			tb.Fatal(err)
		}
		if _, err := Collect(again); err != nil {
			tb.Fatal(err)
		}
		want(tb, "what it did", Script(tb, in, "cat done").Stdout, "went on\n")
	}},
}
