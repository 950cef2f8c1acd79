// Command conformance runs the suites of the workspace service on everything that they are for: the port of files on each backend, the journal on each of its stores, the
// service black box in memory and as a process, and each mutating RPC for what an effect id promises. It counts cases; a case that is skipped counts as a failure unless the
// table says why it may be.
//
// It prints one line a row and a JSON object in the last line. The exit code is 0 when it ran, whatever it found: the object says what is as it must be.
//
//	go run ./services/workspace/internal/cmd/conformance [-only PATTERN]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/testkit/gotest"
	"github.com/gantry-agents/gantry/services/workspace/internal/cmd/replica"
)

// rowTimeout bounds one run of go test.
const rowTimeout = "10m"

func main() {
	only := flag.String("only", "", "run only rows whose name matches this pattern")
	bin := flag.String("bin", "bin/workspace", "the program of the workspace service")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only, *bin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run runs the rows. Its error is about the run itself; what suites find is in the figures.
func run(ctx context.Context, only, bin string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	report := &figures.Report{Command: "conformance-workspace"}
	var total, forbidden int
	for _, r := range rows {
		if !pattern.MatchString(r.name) {
			continue
		}
		started := time.Now()
		c, err := r.run(ctx, root, bin)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.Failed++
			c.Output += err.Error()
		}
		bad := r.forbidden(c.Skips)
		verdict := "ok"
		switch {
		case c.Failed > 0:
			verdict = "FAILED"
		case len(bad) > 0:
			verdict = "FORBIDDEN SKIPS"
		case c.Passed == 0:
			verdict, c.Failed = "FAILED: there is no such test", c.Failed+1
		}
		fmt.Printf("conformance: %-22s %4d passed %3d failed %3d skipped %6.1f s  %s\n", r.name, c.Passed, c.Failed, c.Skipped, time.Since(started).Seconds(), verdict)
		for _, s := range bad {
			fmt.Printf("conformance: %-22s skipped without leave: %s\n", r.name, s)
		}
		if c.Failed > 0 {
			fmt.Fprintf(os.Stderr, "%s\n", c.Output)
		}
		report.AtLeast(r.name+"_passed", float64(c.Passed), 1)
		report.AtMost(r.name+"_failed", float64(c.Failed), 0)
		report.Tell(r.name+"_skipped", c.Skipped)
		total, forbidden = total+c.Passed, forbidden+len(bad)
	}
	report.Tell("cases_passed", total)
	report.AtMost("forbidden_skips", float64(forbidden), 0)
	return report.Write(os.Stdout)
}

// run runs the tests of a row and adds them up.
func (r row) run(ctx context.Context, root, bin string) (total gotest.Counts, err error) {
	var env []string
	if r.process {
		p, done, err := start(ctx, bin)
		if err != nil {
			return total, err
		}
		defer func() { err = errors.Join(err, done()) }()
		env = []string{"GANTRY_TARGET=" + p.Address(), "GANTRY_FILES_TARGET=" + p.Address()}
	}
	for _, t := range r.tests {
		c, err := gotest.Tests(ctx, gotest.Run{Dir: filepath.Join(root, "services/workspace", filepath.FromSlash(t.pkg)), Pattern: t.run, Timeout: rowTimeout, Env: env})
		total.Passed, total.Failed, total.Skipped = total.Passed+c.Passed, total.Failed+c.Failed, total.Skipped+c.Skipped
		total.Skips, total.Output = append(total.Skips, c.Skips...), total.Output+c.Output
		if err == nil && c.Passed+c.Failed+c.Skipped == 0 {
			err = fmt.Errorf("%s has no test %s", t.pkg, t.run)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// start runs the service as a process of its own.
func start(ctx context.Context, bin string) (*replica.Replica, func() error, error) {
	dir, err := os.MkdirTemp("", "gantry-conformance-")
	if err != nil {
		return nil, nil, err
	}
	p, err := replica.New(replica.Config{
		Bin: bin, Log: filepath.Join(dir, "log"), Args: []string{"--data=" + filepath.Join(dir, "data"), "--workspace=" + filepath.Join(dir, "workspace")},
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	done := func() error { return errors.Join(p.Stop(), p.Close(), os.RemoveAll(dir)) }
	if err := p.Start(ctx); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return p, done, nil
}

// forbidden are the skips that the row does not allow.
func (r row) forbidden(skips []string) []string {
	var out []string
	for _, s := range skips {
		allowed := false
		for _, a := range r.skips {
			allowed = allowed || strings.Contains(s, a)
		}
		if !allowed {
			out = append(out, s)
		}
	}
	return out
}

// repository finds the root of the source tree from the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it inside the source tree: no go.work is above the working directory")
		}
		dir = parent
	}
}
