package measure

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Part is some figures that are measured together.
type Part struct {
	Name string
	Run  func(b *B)
}

// B is one part under way.
type B struct {
	testkit.T
	Ctx    context.Context
	Report *figures.Report
	// Scale is the size of the data, for a quick look: the goals are for 1.
	Scale float64
	out   io.Writer
}

// Size scales a number of things.
func (b *B) Size(n int) int { return max(1, int(float64(n)*b.Scale)) }

// Say prints progress.
func (b *B) Say(format string, args ...any) { fmt.Fprintf(b.out, "bench: "+format+"\n", args...) }

// Must ends the part on an error.
func (b *B) Must(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// Main reads the flags and measures. It ends the program with status 1 when a part fails; a goal that is missed is no failure.
func Main(command string, parts []Part) {
	names := ""
	for _, p := range parts {
		names += " " + p.Name
	}
	only := flag.String("only", "", "measure only the parts whose name matches this pattern:"+names)
	quiet := flag.Bool("json", false, "print the JSON object alone")
	scale := flag.Float64("scale", 1, "size of the data, for a quick look: the goals are for 1")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	progress := io.Writer(os.Stdout)
	if *quiet {
		progress = io.Discard
	}
	report, err := Run(ctx, command, parts, *only, *scale, progress)
	stop()
	if err == nil {
		err = report.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// Run measures each part whose name matches. A part that fails ends the run; one that needs what the machine lacks is told and left out.
func Run(ctx context.Context, command string, parts []Part, only string, scale float64, progress io.Writer) (*figures.Report, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	report := &figures.Report{Command: command}
	for _, p := range parts {
		if !pattern.MatchString(p.Name) {
			continue
		}
		started, done := time.Now(), false
		b := &B{Ctx: ctx, Report: report, Scale: scale, out: progress}
		failures := testkit.Failures(func(t testkit.T) {
			b.T = t
			p.Run(b)
			done = true
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(failures) > 0 {
			return nil, fmt.Errorf("%s: %s", p.Name, failures[0])
		}
		if !done {
			report.Tell(p.Name, "skipped: this machine lacks a server")
		}
		b.Say("%s took %.1f s", p.Name, time.Since(started).Seconds())
	}
	return report, nil
}
