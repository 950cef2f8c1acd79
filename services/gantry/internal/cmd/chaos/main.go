package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
)

// progressEvery is after how many runs a line is printed.
const progressEvery = 50

func main() {
	n := flag.Int("n", 200, "runs")
	parallel := flag.Int("parallel", 8, "runs at once")
	seed := flag.Uint64("seed", 0, "seed of the choice of victims; 0: a new one")
	postgres := flag.String("postgres", "", "URL of a PostgreSQL database for files and journal. Empty: SQLite and local files")
	only := flag.String("only", "", "this scenario alone")
	keep := flag.String("dir", "", "directory for the services' data and logs, which stays. Empty: a new one that goes when nothing was found")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	report, err := chaos(ctx, options{n: *n, parallel: *parallel, seed: *seed, postgres: *postgres, only: *only, dir: *keep})
	stop()
	if err == nil {
		err = report.Write(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

type options struct {
	n, parallel         int
	seed                uint64
	postgres, only, dir string
}

// chaos runs everything. Its error is about the run itself; what is found is in the figures.
func chaos(ctx context.Context, opt options) (*figures.Report, error) {
	dir, temporary := opt.dir, opt.dir == ""
	if temporary {
		var err error
		if dir, err = os.MkdirTemp("", "gantry-chaos-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	fmt.Printf("chaos: %d runs, %d at once, seed %d, data in %s\n", opt.n, opt.parallel, opt.seed, dir)
	c, err := newCluster(ctx, dir, opt.postgres)
	if err != nil {
		return nil, err
	}
	t := &tally{}
	err = rage(ctx, c, opt, t)
	c.close()
	if err != nil {
		return nil, err
	}
	if temporary && t.bad() == 0 {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Println("chaos:", err)
		}
	}
	report := &figures.Report{Command: "chaos-runs"}
	report.Tell("seed", opt.seed)
	t.report(report, c.deaths())
	return report, nil
}

// rage plays the scenarios while processes die, and looks at what they left once no more die.
func rage(ctx context.Context, c *cluster, opt options, t *tally) error {
	killing, stop := context.WithCancel(ctx)
	defer stop()
	killed := make(chan error, 1)
	go func() { killed <- c.rampage(killing, rand.New(rand.NewPCG(opt.seed, 1))) }()
	var subjects []*subject
	for i := range opt.n {
		s := scenarios[i%len(scenarios)]
		if opt.only != "" {
			for _, s = range scenarios {
				if s.name == opt.only {
					break
				}
			}
		}
		subjects = append(subjects, &subject{c: c, scenario: s, user: fmt.Sprintf("u%d-%d", opt.seed, i)})
	}
	began := time.Now()
	if err := each(ctx, opt.parallel, subjects, func(s *subject) {
		err := s.live(ctx)
		t.lived(s, err)
		if done := t.done(); done%progressEvery == 0 {
			fmt.Printf("chaos: %s, %d kills, %.1f runs/s\n", t, total(c.deaths()), float64(done)/time.Since(began).Seconds())
		}
	}); err != nil {
		return err
	}
	stop()
	if err := <-killed; err != nil {
		return fmt.Errorf("the killer failed: %w", err)
	}
	fmt.Println("chaos: all processes are there again; what did the runs leave?")
	return each(ctx, opt.parallel, subjects, func(s *subject) {
		f, err := s.verify(ctx)
		t.found(s, f, err)
	})
}

// each runs f for all, some at once, until ctx ends.
func each(ctx context.Context, parallel int, all []*subject, f func(*subject)) error {
	next := make(chan *subject)
	var wait sync.WaitGroup
	for range parallel {
		wait.Go(func() {
			for s := range next {
				f(s)
			}
		})
	}
	defer wait.Wait()
	defer close(next)
	for _, s := range all {
		select {
		case next <- s:
		case <-ctx.Done():
			return errors.New("it was interrupted")
		}
	}
	return nil
}

func total(deaths map[string]int) (n int) {
	for _, d := range deaths {
		n += d
	}
	return n
}
