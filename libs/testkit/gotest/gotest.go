// Package gotest runs the tests of a package with go test and counts what came of them, for commands that report on suites.
package gotest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// maxOutput bounds what is kept of the output of one test, and of all failures.
const maxOutput = 20_000

// Run is what to run.
type Run struct {
	// Dir is the folder of the package.
	Dir string
	// Pattern of the tests' names, as -run takes it.
	Pattern string
	// Timeout as -timeout takes it.
	Timeout string
	// Args are further flags of go test, Env further variables as in os.Environ.
	Args, Env []string
}

// Counts is what a run came to. Tests that have subtests are not counted beside them.
type Counts struct {
	Passed, Failed, Skipped int
	// Skips are the names of the skipped tests, each with its reason, in the order in which they ended.
	Skips []string
	// Output is that of the failures.
	Output string
}

// Tests runs the tests and counts them. The error is about the run itself, for example a package that does not build; tests that fail are in the counts.
func Tests(ctx context.Context, r Run) (Counts, error) {
	args := append([]string{"test", "-json", "-count=1", "-timeout=" + r.Timeout, "-run=" + r.Pattern}, r.Args...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), r.Env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return Counts{}, err
	}
	if err := cmd.Start(); err != nil {
		return Counts{}, err
	}
	c, readErr := Count(stdout)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && c.Failed > 0 {
		err = nil // the counts say it
	}
	c.Output += stderr.String()
	return c, errors.Join(err, readErr)
}

// event is one line of go test -json.
type event struct {
	Action, Test, Output string
}

// Count reads the events of go test -json.
func Count(r io.Reader) (Counts, error) {
	var order []string
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
			order = append(order, e.Test)
		case "output", "build-output":
			if outputs[e.Test] == nil {
				outputs[e.Test] = &strings.Builder{}
			}
			if outputs[e.Test].Len() < maxOutput {
				outputs[e.Test].WriteString(e.Output)
			}
		}
	}
	parents := parentsOf(order)
	var c Counts
	var failures strings.Builder
	for _, test := range order {
		if test == "" || parents[test] {
			continue
		}
		switch results[test] {
		case "pass":
			c.Passed++
		case "skip":
			c.Skipped++
			c.Skips = append(c.Skips, test+": "+reason(outputs[test]))
		case "fail":
			c.Failed++
			if failures.Len() < maxOutput && outputs[test] != nil {
				failures.WriteString(outputs[test].String())
			}
		}
	}
	if results[""] == "fail" && c.Failed == 0 && outputs[""] != nil {
		failures.WriteString(outputs[""].String())
	}
	c.Output = failures.String()
	return c, lines.Err()
}

// parentsOf finds the tests that have subtests.
func parentsOf(tests []string) map[string]bool {
	parents := map[string]bool{}
	for _, test := range tests {
		for i := range test {
			if test[i] == '/' {
				parents[test[:i]] = true
			}
		}
	}
	return parents
}

// reason is the last line of a skipped test's output that the test itself wrote.
func reason(output *strings.Builder) string {
	if output == nil {
		return ""
	}
	said := ""
	for line := range strings.Lines(output.String()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = line
		}
	}
	return said
}
