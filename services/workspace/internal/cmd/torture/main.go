// Command torture changes the files of eight buckets from four replicas at random, kills replicas in the middle, and compares everything with a model: each
// acknowledged change must be there, each other one wholly or not at all, each once, and no bucket may ever show another's byte.
//
// It prints what it does, and a JSON object in the last line. The exit code is 0 when it ran, whatever it found: the object says what is as it must be.
//
//	go run ./services/workspace/internal/cmd/torture -n 20000 [-seed 1] [-backend local,sqlite,postgres]
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func main() {
	n := flag.Int("n", 20_000, "operations on each backend")
	seed := flag.Uint64("seed", 0, "seed of the random choices; 0: a new one")
	backends := flag.String("backend", "all", "backends, separated by commas: "+strings.Join(names(), ", "))
	bin := flag.String("bin", "bin/workspace", "the program of the workspace service")
	kills := flag.Int("kills", -1, "how often a replica is killed; -1: once in 400 operations")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	if *kills < 0 {
		*kills = max(3, *n/400)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{n: *n, seed: *seed, bin: *bin, kills: *kills}, *backends)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// options are what one run on one backend needs.
type options struct {
	n     int
	seed  uint64
	bin   string
	kills int
}

// run tortures each backend. Its error is about the run itself; what is found is in the figures.
func run(ctx context.Context, opt options, list string) error {
	var err error
	if opt.bin, err = filepath.Abs(opt.bin); err != nil {
		return err
	}
	if _, err := os.Stat(opt.bin); err != nil {
		return fmt.Errorf("%w; make build builds it", err)
	}
	wanted := strings.Split(list, ",")
	report := &figures.Report{Command: "torture-workspace"}
	report.Tell("seed", opt.seed)
	var all tally
	tortured := 0
	for _, b := range backends {
		if !slices.Contains(wanted, b.name) && !slices.Contains(wanted, "all") {
			continue
		}
		fmt.Printf("torture: %s: %d operations, seed %d\n", b.name, opt.n, opt.seed)
		started := time.Now()
		var found tally
		done := false
		failures := testkit.Failures(func(t testkit.T) {
			r, err := open(ctx, t, opt, b)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			if err := r.torture(ctx); err != nil {
				t.Fatal(err)
			}
			found, done = r.tally, true
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, f := range failures {
			return fmt.Errorf("%s: %s", b.name, f)
		}
		if !done {
			fmt.Printf("torture: %s: skipped, this machine has no such server\n", b.name)
			report.Tell(b.name, "skipped")
			continue
		}
		tortured++
		rate := float64(found.operations) / time.Since(started).Seconds()
		fmt.Printf("torture: %s: %s, %.0f operations/s\n", b.name, found, rate)
		report.Tell(b.name+"_operations_per_second", int(rate))
		if found.bad() > 0 {
			fmt.Printf("torture: repeat: make torture-workspace N=%d SEED=%d BACKEND=%s\n", opt.n, opt.seed, b.name)
		}
		all.add(found)
	}
	report.AtLeast("backends", float64(tortured), 1)
	report.Tell("operations", all.operations)
	report.Tell("kills", all.kills)
	report.Tell("uncertain", all.uncertain)
	report.Tell("repeated", all.repeated)
	for i, name := range faultNames {
		report.AtMost(name, float64(all.faults[i]), 0)
	}
	return report.Write(os.Stdout)
}
