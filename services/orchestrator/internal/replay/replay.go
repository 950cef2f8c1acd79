package replay

import (
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/kit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

// maxDifferences bounds an answer; more are counted only.
const maxDifferences = 100

// Kits makes kits.
type Kits interface {
	Build(ctx context.Context, f run.Facts) (*kit.Kit, error)
}

// Replayer replays threads.
type Replayer struct {
	Threads threadv1.ThreadServiceClient
	// Files gives workspace files in earlier revisions.
	Files  fsv1.FilesystemServiceClient
	Kits   Kits
	Models run.Models
}

// replaying is one replay.
type replaying struct {
	Replayer
	ctx context.Context
	out *orchestratorv1.ReplayThreadResponse
	// kits are those of the runs, by id: as their definition is now.
	kits map[string]*kit.Kit
}

// Thread replays a thread of the context's identity, or one run of it. RUN_NOT_FOUND when it has no such run.
func (r Replayer) Thread(ctx context.Context, runID string) (*orchestratorv1.ReplayThreadResponse, error) {
	p := &replaying{Replayer: r, ctx: ctx, out: &orchestratorv1.ReplayThreadResponse{}, kits: map[string]*kit.Kit{}}
	found := false
	_, err := checkpoint.Fold(ctx, r.Threads, func(before *loop.Thread, ev *threadv1.Event) error {
		if ev.GetRunId() == "" || runID != "" && ev.GetRunId() != runID {
			return nil
		}
		found = true
		if before.Run == nil || before.Run.ID != ev.GetRunId() {
			return nil
		}
		return p.event(before, ev)
	})
	if err == nil && runID != "" && !found {
		err = errdefs.New(errdefs.ErrNotFound, run.Domain, "RUN_NOT_FOUND", "the thread has no such run").With("run_id", runID)
	}
	return p.out, err
}

// event compares one event with what would be journaled in its place.
func (p *replaying) event(before *loop.Thread, ev *threadv1.Event) error {
	payload := ev.GetPayload()
	switch {
	case payload.GetRequestPrepared() != nil:
		return p.request(before, ev, payload.GetRequestPrepared())
	case payload.GetToolDecided() != nil:
		return p.decision(before, ev, payload.GetToolDecided())
	case payload.GetToolDispatched() != nil:
		c := before.Run.Call(payload.GetToolDispatched().GetCallId())
		if c == nil {
			return nil
		}
		p.compare(ev, "arguments", payload.GetToolDispatched().GetArgumentsJson()+"\n", run.Arguments(c)+"\n")
	}
	return nil
}

func (p *replaying) decision(before *loop.Thread, ev *threadv1.Event, recorded *threadv1.ToolDecided) error {
	c := before.Run.Call(recorded.GetCallId())
	if c == nil || c.Decision != "" {
		return nil // what a person decided afterwards
	}
	k, err := p.kit(before.Run)
	if err != nil {
		return err
	}
	verdict, rule := run.Judge(k, before, c)
	line := func(verdict, rule string) string {
		return fmt.Sprintf("%s: %s (%s)\n", c.Call.GetName(), verdict, rule)
	}
	p.compare(ev, "decision", line(recorded.GetDecision(), recorded.GetRule()), line(verdict, rule))
	return nil
}

// kit is that of a run, made once.
func (p *replaying) kit(r *loop.Run) (*kit.Kit, error) {
	if k := p.kits[r.ID]; k != nil {
		return k, nil
	}
	f, err := run.FactsOf(r)
	if err != nil {
		return nil, err
	}
	ctx := identity.NewBucketContext(identity.NewContext(p.ctx, f.Identity), f.Bucket)
	k, err := p.Kits.Build(ctx, f)
	if err == nil {
		p.kits[r.ID] = k
	}
	return k, err
}

// compare notes a difference.
func (p *replaying) compare(ev *threadv1.Event, what, recorded, replayed string) {
	if d := differ(ev.GetSeq(), what, recorded, replayed); d != nil && len(p.out.Differences) < maxDifferences {
		p.out.Differences = append(p.out.Differences, d)
	}
}
