// Command conformance runs every suite of the repository on everything that it is for: port suites on each backend, API suites
// in memory and against processes, and both kinds on implementations that are broken on purpose. Then it asks a running suite
// which RPCs it implements and compares that with the list in rpcs.txt.
//
// It prints one line a pair and a JSON object in the last line. The exit code is 0 when it ran, whatever it found: the object
// says what is as it must be.
//
//	go run ./services/gantry/conformance [--only PATTERN] [--write]
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
	"syscall"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

func main() {
	only := flag.String("only", "", "run only pairs whose line matches this pattern; rpcs is the name of the comparison of RPCs")
	write := flag.Bool("write", false, "write services/gantry/conformance/rpcs.txt anew instead of comparing with it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *only, *write)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// run does everything. Its error is about the run itself; what suites find is in the figures.
func run(ctx context.Context, only string, write bool) (err error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	root, err := repository()
	if err != nil {
		return err
	}
	report := &figures.Report{Command: "conformance"}
	strays, err := unlisted(root)
	if err != nil {
		return err
	}
	for _, s := range strays {
		fmt.Printf("conformance: %s runs a suite and is in no pair\n", s)
	}
	report.AtMost("suites_in_no_pair", float64(len(strays)), 0)

	dir, err := os.MkdirTemp("", "gantry-conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The orchestrator's suite needs a model that says what the suite's script says.
	script := filepath.Join(dir, "script.yaml")
	if err := os.WriteFile(script, []byte(orchestratortest.Script), 0o644); err != nil {
		return err
	}
	cluster, err := procs.Start(ctx, procs.Config{
		Dir: dir, Model: "scripted:script", Workspaces: filepath.Join(root, "examples"),
		Args: map[string][]string{
			procs.Orchestrator: {"--model-script=" + script, "--ollama-url=none", "--model-attempts=2"}, procs.Sandbox: {"--release-on-stop"},
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx)), procs.EndSandboxes(dir))
	}()
	if err := runPairs(ctx, root, cluster, pattern, report); err != nil {
		return err
	}
	if pattern.MatchString("rpcs") {
		if err := compareRPCs(ctx, filepath.Join(root, "services/gantry/conformance/rpcs.txt"), cluster, write, report); err != nil {
			return err
		}
	}
	return report.Write(os.Stdout)
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
