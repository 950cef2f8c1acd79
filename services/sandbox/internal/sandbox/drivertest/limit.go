package drivertest

import (
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

func limited(c sandbox.Capabilities) bool { return c.Limits }

// small are limits that a test reaches soon.
func small(s *sandbox.Spec) {
	s.Limits.MemoryBytes, s.Limits.Processes = 128<<20, 60
	s.Limits.DiskBytes, s.Limits.DiskEntries, s.Limits.TempBytes = 8<<20, 500, 4<<20
	s.Limits.FileBytes, s.Limits.OpenFiles = 4<<20, 100
}

var limitCases = []Case{
	{Name: "memory is bounded, and the sandbox survives", Needs: limited, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb, small)
		r := Exec(tb, in, sandbox.Command{Argv: []string{"perl", "-e", "my $x = 'a' x (1<<30); print 'ALLOWED'"}})
		want(tb, "out of memory", r.Exit.OOM, true)
		want(tb, "stdout", r.Stdout, "")
		// Memory that no process owns: it counts as well, and must not cost the init process its life.
		r = Script(tb, in, "for i in 1 2 3; do head -c 100000000 /dev/zero > /dev/shm/f$i; done; echo end")
		want(tb, "next command", Script(tb, in, "rm -f /dev/shm/*; echo ok").Stdout, "ok\n")
	}},
	{Name: "processes are bounded, and the next command works", Needs: limited, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb, small)
		start := time.Now()
		Exec(tb, in, sandbox.Command{Script: []byte(":(){ :|:& };:; sleep 5"), Hard: time.Second})
		want(tb, "next command", Script(tb, in, "echo ok").Stdout, "ok\n")
		if d := time.Since(start); d > 15*time.Second {
			tb.Errorf("it took %s", d)
		}
	}},
	{Name: "the disk is bounded in bytes and entries", Needs: limited, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb, small)
		r := Script(tb, in, "for i in $(seq 20); do head -c 1000000 /dev/zero > f$i || exit 1; done")
		want(tb, "many large files", r.Exit.Code, 1)
		if !strings.Contains(r.Stderr, "No space left") {
			tb.Errorf("stderr is %.200q", r.Stderr)
		}
		Script(tb, in, "rm -f f*")
		r = Script(tb, in, "for i in $(seq 1000); do : > n$i || exit 1; done")
		want(tb, "many small files", r.Exit.Code, 1)
		Script(tb, in, "rm -f n*")
		r = Script(tb, in, "head -c 6000000 /dev/zero > big; wc -c < big")
		want(tb, "one large file", strings.TrimSpace(r.Stdout), "4194304")
	}},
	{Name: "open files are bounded", Needs: limited, Run: func(tb testing.TB, e *Env) {
		r := Exec(tb, e.New(tb, small), sandbox.Command{Argv: []string{"perl", "-e", "my @f; while (open(my $h, '<', '/dev/null')) { push @f, $h } print scalar(@f) < 100 ? 'bounded' : 'ALLOWED'"}})
		want(tb, "stdout", r.Stdout, "bounded")
	}},
	{Name: "processor time is bounded", Needs: limited, Run: func(tb testing.TB, e *Env) {
		in := e.New(tb, small, func(s *sandbox.Spec) { s.Limits.CPUMilli = 200 })
		r := Exec(tb, in, sandbox.Command{Script: []byte("while :; do :; done"), Hard: time.Second})
		if r.Exit.CPU > 500*time.Millisecond {
			tb.Errorf("%s of CPU were used in one second with a fifth of a core", r.Exit.CPU)
		}
	}},
}
