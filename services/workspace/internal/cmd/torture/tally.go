package main

import (
	"fmt"
	"strings"
)

// fault is a kind of what must not happen.
type fault int

const (
	// lost: an acknowledged change is not there, or was not told by Watch.
	lost fault = iota
	// leaked: a bucket shows what another one wrote.
	leaked
	// doubled: a change happened twice, or its repeat had another outcome.
	doubled
	// half: a file or a set of files is neither as before nor as after a change.
	half
	// wrong: an answer is not the one that the model gives.
	wrong
	faultKinds
)

var faultNames = [faultKinds]string{"lost", "leaked", "doubled", "half", "wrong"}

// tally is what a run came to.
type tally struct {
	operations, kills int
	// uncertain are calls that ended without an answer, repeated those that were made again after an answer.
	uncertain, repeated int
	faults              [faultKinds]int
}

func (t *tally) add(o tally) {
	t.operations, t.kills = t.operations+o.operations, t.kills+o.kills
	t.uncertain, t.repeated = t.uncertain+o.uncertain, t.repeated+o.repeated
	for i, n := range o.faults {
		t.faults[i] += n
	}
}

func (t tally) bad() int {
	sum := 0
	for _, n := range t.faults {
		sum += n
	}
	return sum
}

func (t tally) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d operations, %d kills, %d uncertain, %d repeated", t.operations, t.kills, t.uncertain, t.repeated)
	for i, n := range t.faults {
		fmt.Fprintf(&out, ", %s %d", faultNames[i], n)
	}
	return out.String()
}
