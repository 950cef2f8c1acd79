// Command peer is a step-journaling library at the work of agents, for the comparison in `make bench-runs`: DBOS Transact, with its journal on the same PostgreSQL. A workflow makes the steps of a run,
// each with an answer of a model and a call of a tool that do nothing; both are steps of the library, since both must not happen twice.
//
// It is a module of its own, so that nothing of Gantry depends on it. For each line on the standard input it works for a round and prints how many steps of runs it made in a second.
//
//	peer -dsn postgres://… [-threads 32] [-steps 20] [-round 3s]
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

func main() {
	dsn := flag.String("dsn", "", "URL of the database")
	threads := flag.Int("threads", 32, "workflows at once")
	steps := flag.Int("steps", 20, "steps of one run")
	round := flag.Duration("round", 3*time.Second, "how long a round takes")
	flag.Parse()
	if err := serve(*dsn, *threads, *steps, *round); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

// answer is what a step records: as much as a step of Gantry's bench does.
var answer = strings.Repeat("x", 500)

// run is an agent's run: in each step a model answers and a tool is called.
func run(ctx dbos.Context, steps int) (string, error) {
	for range steps {
		for range 2 {
			if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return answer, nil }); err != nil {
				return "", err
			}
		}
	}
	return "done", nil
}

func serve(dsn string, threads, steps int, round time.Duration) error {
	if dsn == "" {
		return errors.New("-dsn is needed")
	}
	ctx, err := dbos.NewContext(context.Background(), dbos.Config{AppName: "peer", DatabaseURL: dsn, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(ctx, run)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer dbos.Shutdown(ctx, 5*time.Second)
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		made, took, err := play(ctx, threads, steps, round)
		if err != nil {
			return err
		}
		fmt.Printf("%.1f\n", float64(made)/took.Seconds())
	}
	return lines.Err()
}

// play makes runs for a while and returns how many steps they had together.
func play(ctx dbos.Context, threads, steps int, round time.Duration) (int64, time.Duration, error) {
	var made atomic.Int64
	var failed atomic.Value
	var wait sync.WaitGroup
	began := time.Now()
	for range threads {
		wait.Go(func() {
			for time.Since(began) < round && failed.Load() == nil {
				handle, err := dbos.RunWorkflow(ctx, run, steps)
				if err == nil {
					_, err = handle.GetResult()
				}
				if err != nil {
					failed.Store(err)
					return
				}
				made.Add(int64(steps))
			}
		})
	}
	wait.Wait()
	err, _ := failed.Load().(error)
	return made.Load(), time.Since(began), err
}
