package main

import (
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// TestChaos is a small round of what the command does: nothing may be lost, doubled or stuck.
func TestChaos(t *testing.T) {
	if _, err := procs.Bin(); err != nil {
		t.Fatal(err)
	}
	report, err := chaos(t.Context(), options{n: 50, parallel: 8, seed: uint64(time.Now().UnixNano() % 1_000_000), dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Figures {
		t.Log(f.Name, f.Value, f.Goal)
		if !f.OK && f.Name != "take_over_p99_seconds" { // a matter of the machine
			t.Errorf("%s is %v, want %s", f.Name, f.Value, f.Goal)
		}
	}
}

func TestLinesAreToBeThereOnce(t *testing.T) {
	for _, c := range []struct {
		name, text    string
		unsure        bool
		lost, doubled int
	}{
		{"all", "one\ntwo\n", false, 0, 0},
		{"in another order", "two\none\n", false, 0, 0},
		{"one missing", "two\n", false, 1, 0},
		{"one twice", "one\ntwo\none\n", false, 0, 1},
		{"another one", "one\ntwo\nthree\n", false, 0, 1},
		{"nothing", "", false, 2, 0},
		{"nothing, and it is not known", "", true, 0, 0},
		{"one twice, and it is not known", "one\none\n", true, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f findings
			f.lines("log.txt", c.text, []string{"one", "two"}, c.unsure)
			if len(f.lost) != c.lost || len(f.doubled) != c.doubled {
				t.Errorf("lost %q, doubled %q, want %d and %d", f.lost, f.doubled, c.lost, c.doubled)
			}
		})
	}
}

// TestEveryServiceDies has the killer know what to kill: a service that never dies is one that nobody knows to survive.
func TestEveryServiceDies(t *testing.T) {
	for _, name := range procs.Names {
		if name != procs.Gateway && !slices.Contains(victims, name) { // the gateway keeps nothing, and the clients do not use it
			t.Errorf("%s is never killed", name)
		}
	}
}
