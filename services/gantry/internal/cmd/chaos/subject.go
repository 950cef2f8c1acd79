package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// pollEvery is how often a subject looks at its runs.
const pollEvery = 100 * time.Millisecond

// subject is a user of its own, with one scenario.
type subject struct {
	c        *cluster
	scenario scenario
	user     string
	runs     []string // in order
	steered  bool     // and it was acknowledged
	unknown  int      // outcomes that were not known
	answers  int
}

// run makes a method of the run service one that insist takes.
func run[Q, R any](method func(orchestratorv1.RunServiceClient, context.Context, *Q, ...grpc.CallOption) (*R, error)) func(grpc.ClientConnInterface) func(context.Context, *Q, ...grpc.CallOption) (*R, error) {
	return func(conn grpc.ClientConnInterface) func(context.Context, *Q, ...grpc.CallOption) (*R, error) {
		return func(ctx context.Context, q *Q, opts ...grpc.CallOption) (*R, error) {
			return method(orchestratorv1.NewRunServiceClient(conn), ctx, q, opts...)
		}
	}
}

// as is the subject's context.
func (s *subject) as(ctx context.Context) context.Context {
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: s.scenario.agent, User: s.user, Session: "s", ScopeUnset: true})
}

// live plays the scenario to its end.
func (s *subject) live(ctx context.Context) error {
	ctx = s.as(ctx)
	for i, text := range s.scenario.inputs {
		got, err := insist(ctx, s.c.replica, run(orchestratorv1.RunServiceClient.StartRun), &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{
			Text: text, RequestId: fmt.Sprintf("%s-%d", s.user, i), BusyPolicy: orchestratorv1.BusyPolicy_BUSY_POLICY_QUEUE,
		}})
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		s.runs = append(s.runs, got.GetRun().GetId())
	}
	if s.scenario.meanwhile != nil {
		if err := s.scenario.meanwhile(ctx, s); err != nil {
			return fmt.Errorf("meanwhile: %w", err)
		}
	}
	for _, id := range s.runs {
		if err := s.await(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// run asks any replica for a run.
func (s *subject) run(ctx context.Context, id string) (*orchestratorv1.Run, error) {
	got, err := insist(ctx, s.c.replica, run(orchestratorv1.RunServiceClient.GetRun), &orchestratorv1.GetRunRequest{RunId: id})
	return got.GetRun(), err
}

// await waits for the end of a run and answers what it asks, each question twice.
func (s *subject) await(ctx context.Context, id string) error {
	var r *orchestratorv1.Run
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if r, err = s.run(ctx, id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		switch r.GetState() {
		case threadv1.RunState_RUN_STATE_COMPLETED, threadv1.RunState_RUN_STATE_FAILED, threadv1.RunState_RUN_STATE_CANCELLED:
			if r.GetState() != s.scenario.outcome {
				return fmt.Errorf("run %s ended as %v: %s %s", id, r.GetState(), r.GetReason(), r.GetMessage())
			}
			return nil
		case threadv1.RunState_RUN_STATE_SUSPENDED:
			if err := s.answer(ctx, r); err != nil {
				return fmt.Errorf("answer to run %s: %w", id, err)
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the end of run %s; it is %v, step %d", errStuck, id, r.GetState(), r.GetSteps())
}

// answer approves what is asked for and skips what is not known.
func (s *subject) answer(ctx context.Context, r *orchestratorv1.Run) error {
	for _, i := range r.GetInteractions() {
		decision := "approve"
		if i.GetKind() == "outcome_unknown" {
			decision = "skip"
			s.unknown++
		}
		for range 2 {
			_, err := insist(ctx, s.c.replica, run(orchestratorv1.RunServiceClient.ResolveInteractions), &orchestratorv1.ResolveInteractionsRequest{
				Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: i.GetId(), Decision: decision}},
			})
			if errors.Is(err, errdefs.ErrNotFound) || errors.Is(err, errdefs.ErrFailedPrecondition) {
				continue // it was answered before
			}
			if err != nil {
				return err
			}
			s.answers++
		}
	}
	return nil
}
