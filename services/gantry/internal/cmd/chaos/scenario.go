package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// scenario is what some user asks for, and what must come of it.
type scenario struct {
	name, agent string
	// inputs are what the user says, each as a run of its own; a later one waits for the one before.
	inputs []string
	// meanwhile is what the user does while the runs work. Nil: nothing.
	meanwhile func(ctx context.Context, s *subject) error
	// files are the lines that must be in them at the end, fact a text that the ledger holds once, tasks how many there are.
	files map[string][]string
	fact  string
	tasks int
	// outcome of each run.
	outcome threadv1.RunState
	// unsure are the files of which a line may be missing when the outcome of a command is not known.
	unsure string
}

var scenarios = []scenario{
	{
		name: "files", agent: agentPlain, inputs: []string{"files please"}, fact: "The warehouse opens at seven.",
		files: map[string][]string{"log.txt": {"one", "two"}, "moved.txt": {"one"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "shell", agent: agentShell, inputs: []string{"shell please"}, unsure: "ran.txt",
		files: map[string][]string{"ran.txt": {"begun", "ended"}, "memory/after.md": {"after"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "spawn", agent: agentPlain, inputs: []string{"spawn please"}, tasks: 1,
		files: map[string][]string{"child.txt": {"child"}, "log.txt": {"parent"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "ask", agent: agentPlain, inputs: []string{"ask please"},
		files: map[string][]string{"asked.txt": {"asked"}, "log.txt": {"one"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "steer", agent: agentPlain, inputs: []string{"steer please"}, meanwhile: steer,
		files: map[string][]string{"log.txt": {"one"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "queue", agent: agentPlain, inputs: []string{"queue first", "queue second"},
		files: map[string][]string{"log.txt": {"first", "second"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "book", agent: agentBooks, inputs: []string{"book please"},
		files: map[string][]string{"log.txt": {"booked"}}, outcome: threadv1.RunState_RUN_STATE_COMPLETED,
	},
	{
		name: "cancel", agent: agentPlain, inputs: []string{"cancel please"}, meanwhile: cancel,
		files: map[string][]string{"log.txt": {"one"}}, outcome: threadv1.RunState_RUN_STATE_CANCELLED,
	},
}

// steer says something to the working run, twice under one id, to two replicas perhaps.
func steer(ctx context.Context, s *subject) error {
	if err := pause(ctx, rand.N(300*time.Millisecond)); err != nil {
		return err
	}
	for range 2 {
		_, err := insist(ctx, s.c.replica, run(orchestratorv1.RunServiceClient.SteerRun), &orchestratorv1.SteerRunRequest{RunId: s.runs[0], Text: "and also that", MessageId: "steer-" + s.user})
		switch {
		case errors.Is(err, errdefs.ErrFailedPrecondition), errors.Is(err, errdefs.ErrNotFound):
			return nil // it has ended
		case err != nil:
			return err
		}
		s.steered = true
	}
	return nil
}

// cancel asks for the end of the run once it has done its first step.
func cancel(ctx context.Context, s *subject) error {
	for end := time.Now().Add(patience); ; {
		r, err := s.run(ctx, s.runs[0])
		if err != nil {
			return err
		}
		if r.GetSteps() > 1 {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w: the second step; the run is %v", errStuck, r)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
	_, err := insist(ctx, s.c.replica, run(orchestratorv1.RunServiceClient.CancelRun), &orchestratorv1.CancelRunRequest{RunId: s.runs[0], Reason: "enough"})
	return err
}
