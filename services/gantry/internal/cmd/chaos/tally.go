package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
)

// tally is what the runs came to. Safe for concurrent use.
type tally struct {
	mu                                      sync.Mutex
	ended, lost, doubled, stuck, unverified int
	unknown, answers                        int
	takeOvers                               []time.Duration
}

// lived notes how a subject's runs ended.
func (t *tally) lived(s *subject, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
	t.unknown += s.unknown
	t.answers += s.answers
	switch {
	case err == nil:
	case errors.Is(err, errStuck):
		t.stuck++
		fmt.Printf("chaos: stuck: %s of %s: %v\n", s.scenario.name, s.user, err)
	default:
		t.lost++
		fmt.Printf("chaos: lost: %s of %s: %v\n", s.scenario.name, s.user, err)
	}
}

// found notes what a subject left.
func (t *tally) found(s *subject, f findings, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeOvers = append(t.takeOvers, f.takeOvers...)
	for _, what := range f.lost {
		t.lost++
		fmt.Printf("chaos: lost: %s of %s: %s\n", s.scenario.name, s.user, what)
	}
	for _, what := range f.doubled {
		t.doubled++
		fmt.Printf("chaos: doubled: %s of %s: %s\n", s.scenario.name, s.user, what)
	}
	if len(f.lost)+len(f.doubled) > 0 {
		story(os.Stdout, f.events)
	}
	if err != nil {
		t.unverified++
		fmt.Printf("chaos: not verified: %s of %s: %v\n", s.scenario.name, s.user, err)
	}
}

func (t *tally) done() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

func (t *tally) bad() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost + t.doubled + t.stuck + t.unverified
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d runs, lost %d, doubled %d, unknown %d, stuck %d", t.ended, t.lost, t.doubled, t.unknown, t.stuck)
}

// report adds the figures.
func (t *tally) report(r *figures.Report, deaths map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Tell("runs", t.ended)
	for _, name := range slices.Sorted(maps.Keys(deaths)) {
		r.Tell("kills_"+name, deaths[name])
	}
	r.AtMost("lost", float64(t.lost), 0)
	r.AtMost("doubled", float64(t.doubled), 0)
	r.AtMost("stuck", float64(t.stuck), 0)
	r.AtMost("unverified", float64(t.unverified), 0)
	r.Tell("unknown", t.unknown)
	r.Tell("answers", t.answers)
	slices.Sort(t.takeOvers)
	r.Tell("take_overs", len(t.takeOvers))
	if n := len(t.takeOvers); n > 0 {
		r.Tell("take_over_p50_seconds", seconds(t.takeOvers[n/2]))
		r.AtMost("take_over_p99_seconds", seconds(t.takeOvers[min(n-1, n*99/100)]), 2)
	}
}

func seconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Millisecond)) / float64(time.Second)
}
