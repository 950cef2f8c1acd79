package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/testkit/gotest"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// pairTimeout bounds one pair.
const pairTimeout = "10m"

// runPairs runs the pairs whose line matches and reports them.
func runPairs(ctx context.Context, root string, cluster *procs.Cluster, only *regexp.Regexp, report *figures.Report) error {
	var total gotest.Counts
	missed, empty := 0, 0
	for _, p := range pairs {
		line := fmt.Sprintf("%-8s %-15s on %-26s", p.kind, p.suite, p.on)
		if !only.MatchString(line) {
			continue
		}
		started := time.Now()
		c, err := runPair(ctx, root, p, cluster)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "ok"
		switch {
		case err != nil:
			verdict, c.Failed = "FAILED: "+err.Error(), c.Failed+1
		case c.Failed > 0:
			verdict = "FAILED"
		case c.Passed == 0 && c.Skipped > 0:
			verdict, missed = "skipped: this machine lacks "+p.needs, missed+1
		case c.Passed == 0:
			verdict, empty = "FAILED: there is no such test", empty+1
		}
		fmt.Printf("conformance: %s %4d passed %3d failed %3d skipped %6.1f s  %s\n", line, c.Passed, c.Failed, c.Skipped, time.Since(started).Seconds(), verdict)
		if strings.HasPrefix(verdict, "FAILED") {
			fmt.Fprintf(os.Stderr, "%s\n", c.Output)
		}
		total.Passed, total.Failed, total.Skipped = total.Passed+c.Passed, total.Failed+c.Failed, total.Skipped+c.Skipped
	}
	report.AtLeast("tests_passed", float64(total.Passed), 1)
	report.AtMost("tests_failed", float64(total.Failed), 0)
	report.Tell("tests_skipped", total.Skipped)
	report.AtMost("pairs_without_tests", float64(empty), 0)
	report.AtMost("pairs_skipped_whole", float64(missed), 0)
	return nil
}

// single is one process without the others.
type single struct {
	*procs.Cluster
	dir string
}

func startAlone(ctx context.Context, service string) (single, error) {
	dir, err := os.MkdirTemp("", "gantry-conformance-")
	if err != nil {
		return single{}, err
	}
	c, err := procs.New(procs.Config{Dir: dir})
	if err != nil {
		return single{}, errors.Join(err, os.RemoveAll(dir))
	}
	one := single{c, dir}
	if err := c.Launch(ctx, service); err != nil {
		return single{}, errors.Join(err, one.stop())
	}
	return one, nil
}

func (s single) stop() error {
	return errors.Join(s.Stop(context.Background()), os.RemoveAll(s.dir))
}

// runPair runs the tests of a pair and counts them.
func runPair(ctx context.Context, root string, p pair, cluster *procs.Cluster) (c gotest.Counts, err error) {
	run := gotest.Run{Dir: filepath.Join(root, filepath.FromSlash(p.pkg)), Pattern: p.run, Timeout: pairTimeout}
	if p.alone {
		var one single
		if one, err = startAlone(ctx, p.target); err != nil {
			return gotest.Counts{}, err
		}
		defer func() { err = errors.Join(err, one.stop()) }()
		cluster = one.Cluster
	}
	if p.target != "" {
		run.Env = []string{"GANTRY_TARGET=" + cluster.Address(p.target), "GANTRY_FILES_TARGET=" + cluster.Address(procs.Workspace)}
	}
	return gotest.Tests(ctx, run)
}
