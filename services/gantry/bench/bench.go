package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
)

// Options say what is measured.
type Options struct {
	// Time is how long each figure is measured. 0: one second.
	Time time.Duration
	// Only are figures whose name begins so; the echoes are always measured. Empty: all.
	Only string
}

// agent is the agent that calls are made to.
const agent = "bench"

// bencher is one run of the benchmark.
type bencher struct {
	opts   Options
	out    io.Writer
	report figures.Report
	// echo is the latency of the bare echo by transport, in microseconds.
	echo map[transport]float64
}

// transport is what a call goes over.
type transport string

const (
	memory transport = "memory"
	tcp    transport = "tcp"
)

// Run measures, writes a line a figure to w while it goes on, and at last one JSON object. It needs the programs of the
// services for the figures across processes; where they are not built, it says so and leaves these out.
func Run(ctx context.Context, opts Options, w io.Writer) (err error) {
	if opts.Time <= 0 {
		opts.Time = time.Second
	}
	dir, err := os.MkdirTemp("", "gantry-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := prepare(dir); err != nil {
		return err
	}
	b := &bencher{opts: opts, out: w, report: figures.Report{Command: "bench"}, echo: map[transport]float64{}}
	for _, step := range []func(context.Context, string) error{b.echoes, b.oneProcess, b.processes} {
		if err := step(ctx, dir); err != nil {
			return err
		}
	}
	return b.report.Write(w)
}

// prepare writes the agent and the script of its model.
func prepare(dir string) error {
	workspace := filepath.Join(dir, "agents", agent)
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(workspace, "AGENTS.md"), []byte("You are measured.\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "script.yaml"), []byte(script()), 0o644))
}

// wanted says whether a figure is asked for.
func (b *bencher) wanted(name string) bool { return strings.HasPrefix(name, b.opts.Only) }

// unary measures a call and reports it beside the echo of its transport. The goal is for the ratio.
func (b *bencher) unary(ctx context.Context, name string, over transport, goal float64, call func(context.Context) error) error {
	if !b.wanted(name) {
		return nil
	}
	us, n, err := median(ctx, b.opts.Time, call)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	ratio := us / b.echo[over]
	b.line(name, us, n, fmt.Sprintf("%.1f x echo over %s", ratio, over))
	b.report.Tell(name+"_us", round(us))
	b.report.AtMost(name+"_ratio", round(ratio), goal)
	return nil
}

// wantedBelow says whether any figure whose name begins with a prefix is asked for.
func (b *bencher) wantedBelow(prefix string) bool {
	return strings.HasPrefix(prefix, b.opts.Only) || strings.HasPrefix(b.opts.Only, prefix)
}

func (b *bencher) line(name string, us float64, n int, note string) {
	fmt.Fprintf(b.out, "bench: %-28s %10.1f us  %8d calls  %s\n", name, us, n, note)
}
