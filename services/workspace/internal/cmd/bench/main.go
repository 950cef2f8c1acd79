// Command bench measures the workspace service against what its work costs at least: ripgrep, the bare database driver, itself on small data. A baseline is measured in
// turns with what is compared to it, in the same run, since machines differ and other work disturbs both.
//
// It prints a line a figure while it goes on, and a JSON object in the last line. docs/benchmarks.md says what each figure is.
//
//	go run ./services/workspace/internal/cmd/bench [-only PATTERN] [-json] [-scale 1]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func main() {
	only := flag.String("only", "", "measure only the parts whose name matches this pattern: "+names())
	quiet := flag.Bool("json", false, "print the JSON object alone")
	scale := flag.Float64("scale", 1, "size of the data, for a quick look: the goals are for 1")
	bin := flag.String("bin", "bin/workspace", "the program of the workspace service")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only, *bin, *scale, *quiet)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is some figures that are measured together.
type part struct {
	name string
	run  func(b *bench)
}

// parts are all there are, in the order of the milestone's list.
var parts = []part{
	{"grep-local", grepLocal},
	{"grep-sqlite", func(b *bench) { grepShared(b, "sqlite", sqliteSettings) }},
	{"grep-postgres", func(b *bench) { grepShared(b, "postgres", postgresSettings) }},
	{"grep-redis", func(b *bench) { grepShared(b, "redis", redisSettings) }},
	{"files-postgres", filesPostgres},
	{"journal-sqlite", func(b *bench) { journalGrowth(b, "sqlite", openJournalSQLite(b)) }},
	{"journal-postgres", journalPostgres},
	{"definition", definition},
	{"upload", upload},
}

func names() string {
	out := ""
	for _, p := range parts {
		out += " " + p.name
	}
	return out
}

// bench is one run.
type bench struct {
	testkit.T
	ctx    context.Context
	report *figures.Report
	bin    string
	scale  float64
	quiet  bool
}

// size scales a number of things.
func (b *bench) size(n int) int { return max(1, int(float64(n)*b.scale)) }

// say prints progress.
func (b *bench) say(format string, args ...any) {
	if !b.quiet {
		fmt.Printf("bench: "+format+"\n", args...)
	}
}

// must ends the part on an error.
func (b *bench) must(err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// run measures each part. A part that fails ends the run; one that needs what the machine lacks is told and left out.
func run(ctx context.Context, only, bin string, scale float64, quiet bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	report := &figures.Report{Command: "bench-workspace"}
	for _, p := range parts {
		if !pattern.MatchString(p.name) {
			continue
		}
		started, done := time.Now(), false
		failures := testkit.Failures(func(t testkit.T) {
			p.run(&bench{T: t, ctx: ctx, report: report, bin: bin, scale: scale, quiet: quiet})
			done = true
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(failures) > 0 {
			return fmt.Errorf("%s: %s", p.name, failures[0])
		}
		if !done {
			report.Tell(p.name, "skipped: this machine lacks a server")
		}
		if !quiet {
			fmt.Printf("bench: %s took %.1f s\n", p.name, time.Since(started).Seconds())
		}
	}
	return report.Write(os.Stdout)
}
