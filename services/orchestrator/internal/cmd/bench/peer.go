package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/measure"
)

// peer is the program of deploy/tools/peer: a step-journaling library at the same work, on the same server.
type peer struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// startPeer builds and starts it. An error says why it can't be had here: its dependencies may be out of reach.
func startPeer(b *measure.B, dsn string) (*peer, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, fmt.Errorf("the source is not here")
	}
	program := filepath.Join(b.TempDir(), "peer")
	build := exec.CommandContext(b.Ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "..", "deploy", "tools", "peer")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build deploy/tools/peer: %w: %s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-dsn", dsn, "-threads", strconv.Itoa(stepThreads), "-steps", strconv.Itoa(stepsOfRun), "-round", rateTime.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	b.Must(err)
	out, err := cmd.StdoutPipe()
	b.Must(err)
	b.Must(cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		cancel()
		_ = cmd.Wait() // how it ends is of no interest
	})
	p := &peer{in, bufio.NewScanner(out)}
	if !p.out.Scan() || p.out.Text() != "ready" {
		return nil, fmt.Errorf("the peer does not start")
	}
	return p, nil
}

// round has it work for a while and returns its steps a second.
func (p *peer) round(b *measure.B) float64 {
	_, err := io.WriteString(p.in, "\n")
	b.Must(err)
	if !p.out.Scan() {
		b.Fatalf("the peer ended")
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(p.out.Text()), 64)
	b.Must(err)
	return rate
}

// besidePeer compares the steps of runs in turns with those of the peer. False: it can't be had here.
func besidePeer(b *measure.B, dsn string, run func(thread string)) bool {
	p, err := startPeer(b, dsn)
	if err != nil {
		b.Say("steps-postgres: no peer here: %v", err)
		return false
	}
	p.round(b) // it warms up as the runs did
	var theirs, ours, parts []float64
	for range rateRounds {
		theirs = append(theirs, p.round(b))
		ours = append(ours, measure.Rate(stepThreads, rateTime, func(c, _ int) { run(fmt.Sprint("peer", c)) })*stepsOfRun)
		parts = append(parts, ours[len(ours)-1]/theirs[len(theirs)-1])
	}
	for _, list := range [][]float64{theirs, ours, parts} {
		slices.Sort(list)
	}
	mid := rateRounds / 2
	b.Say("steps-postgres: %d threads: peer %.0f steps/s, runs %.0f steps/s, ratio %.2f", stepThreads, theirs[mid], ours[mid], parts[mid])
	b.Report.AtLeast("steps_peer_ratio", measure.Round2(parts[mid]), 2)
	return true
}
