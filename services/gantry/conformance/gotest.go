package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/services/gantry/internal/figures"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// pairTimeout bounds one pair.
const pairTimeout = "10m"

// counts is what a pair came to. Tests that have subtests are not counted beside them.
type counts struct{ passed, failed, skipped int }

// runPairs runs the pairs whose line matches and reports them.
func runPairs(ctx context.Context, root string, cluster *procs.Cluster, only *regexp.Regexp, report *figures.Report) error {
	var total counts
	missed, empty := 0, 0
	for _, p := range pairs {
		line := fmt.Sprintf("%-8s %-15s on %-26s", p.kind, p.suite, p.on)
		if !only.MatchString(line) {
			continue
		}
		started := time.Now()
		c, output, err := runPair(ctx, root, p, cluster)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		verdict := "ok"
		switch {
		case err != nil:
			verdict, c.failed = "FAILED: "+err.Error(), c.failed+1
		case c.failed > 0:
			verdict = "FAILED"
		case c.passed == 0 && c.skipped > 0:
			verdict, missed = "skipped: this machine lacks "+p.needs, missed+1
		case c.passed == 0:
			verdict, empty = "FAILED: there is no such test", empty+1
		}
		fmt.Printf("conformance: %s %4d passed %3d failed %3d skipped %6.1f s  %s\n", line, c.passed, c.failed, c.skipped, time.Since(started).Seconds(), verdict)
		if strings.HasPrefix(verdict, "FAILED") {
			fmt.Fprintf(os.Stderr, "%s\n", output)
		}
		total.passed, total.failed, total.skipped = total.passed+c.passed, total.failed+c.failed, total.skipped+c.skipped
	}
	report.AtLeast("tests_passed", float64(total.passed), 1)
	report.AtMost("tests_failed", float64(total.failed), 0)
	report.Tell("tests_skipped", total.skipped)
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

// runPair runs the tests of a pair and counts them. The output is that of failures.
func runPair(ctx context.Context, root string, p pair, cluster *procs.Cluster) (c counts, output string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout="+pairTimeout, "-run="+p.run, ".")
	cmd.Dir = filepath.Join(root, filepath.FromSlash(p.pkg))
	cmd.Env = os.Environ()
	if p.alone {
		var one single
		if one, err = startAlone(ctx, p.target); err != nil {
			return counts{}, "", err
		}
		defer func() { err = errors.Join(err, one.stop()) }()
		cluster = one.Cluster
	}
	if p.target != "" {
		cmd.Env = append(cmd.Env, "GANTRY_TARGET="+cluster.Address(p.target), "GANTRY_FILES_TARGET="+cluster.Address(procs.Workspace))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return counts{}, "", err
	}
	if err := cmd.Start(); err != nil {
		return counts{}, "", err
	}
	c, output, readErr := count(stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && c.failed > 0 {
		err = nil // the counts say it
	}
	return c, output + stderr.String(), errors.Join(err, readErr)
}

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

// maxOutput bounds what is kept of the output of failures.
const maxOutput = 20_000

// count reads the events of go test -json.
func count(r io.Reader) (counts, string, error) {
	results := map[string]string{}
	outputs := map[string]*strings.Builder{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // what a build says is not in JSON everywhere
		}
		switch e.Action {
		case "pass", "fail", "skip":
			results[e.Test] = e.Action
		case "output", "build-output":
			if outputs[e.Test] == nil {
				outputs[e.Test] = &strings.Builder{}
			}
			if outputs[e.Test].Len() < maxOutput {
				outputs[e.Test].WriteString(e.Output)
			}
		}
	}
	var c counts
	var failures strings.Builder
	for test, result := range results {
		if test == "" || hasSubtests(results, test) {
			continue
		}
		switch result {
		case "pass":
			c.passed++
		case "skip":
			c.skipped++
		case "fail":
			c.failed++
			if failures.Len() < maxOutput && outputs[test] != nil {
				failures.WriteString(outputs[test].String())
			}
		}
	}
	if results[""] == "fail" && c.failed == 0 && outputs[""] != nil {
		failures.WriteString(outputs[""].String())
	}
	return c, failures.String(), lines.Err()
}

func hasSubtests(results map[string]string, test string) bool {
	for other := range results {
		if strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}
