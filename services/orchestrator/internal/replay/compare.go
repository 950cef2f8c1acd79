package replay

import (
	"cmp"
	"context"
	"fmt"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// maxCompared bounds the differences of two runs.
const maxCompared = 1000

// aspect is one thing that a step of a run shows, with the event that shows it last.
type aspect struct {
	text string
	seq  int64
}

// aspects are those of all steps, by step and name.
type aspects map[int32]map[string]*aspect

// kinds are the aspects of a step in the order in which they come about.
var kinds = []string{"prompt", "tools", "answer", "arguments", "decision", "result", "usage"}

// Compare shows where two runs differ. Each is in the thread of the identity of its context.
func Compare(ctx, otherCtx context.Context, threads threadv1.ThreadServiceClient, run, other string) ([]*orchestratorv1.ReplayDifference, error) {
	one, err := stepsOf(ctx, threads, run)
	if err != nil {
		return nil, err
	}
	two, err := stepsOf(otherCtx, threads, other)
	if err != nil {
		return nil, err
	}
	var out []*orchestratorv1.ReplayDifference
	for step := int32(0); len(one)+len(two) > 0; step++ {
		for _, kind := range kinds {
			a, b := one[step][kind], two[step][kind]
			if a == nil {
				a = &aspect{}
			}
			if b == nil {
				b = &aspect{}
			}
			if d := differ(cmp.Or(a.seq, b.seq), kind, a.text, b.text); d != nil && len(out) < maxCompared {
				out = append(out, d)
			}
		}
		delete(one, step)
		delete(two, step)
	}
	return out, nil
}

// stepsOf collects what a run shows. Ids and times are left out: they are never the same.
func stepsOf(ctx context.Context, threads threadv1.ThreadServiceClient, run string) (aspects, error) {
	out := aspects{}
	_, err := checkpoint.Fold(ctx, threads, func(_ *loop.Thread, ev *threadv1.Event) error {
		if ev.GetRunId() == run {
			out.note(ev)
		}
		return nil
	})
	return out, err
}

func (a aspects) add(ev *threadv1.Event, kind, format string, args ...any) {
	step := a[ev.GetStep()]
	if step == nil {
		step = map[string]*aspect{}
		a[ev.GetStep()] = step
	}
	if step[kind] == nil {
		step[kind] = &aspect{}
	}
	step[kind].text += fmt.Sprintf(format, args...) + "\n"
	step[kind].seq = ev.GetSeq()
}

func (a aspects) note(ev *threadv1.Event) {
	p := ev.GetPayload()
	switch {
	case p.GetRequestPrepared() != nil:
		r := p.GetRequestPrepared()
		for _, i := range r.GetItems() {
			a.add(ev, "prompt", "%s %s %s: %d tokens", i.GetKind(), i.GetSource(), i.GetRevision(), i.GetTokens())
		}
		a.add(ev, "prompt", "model %s", r.GetModel())
		for _, name := range r.GetTools() {
			a.add(ev, "tools", "%s", name)
		}
	case p.GetModelEnded() != nil:
		a.add(ev, "answer", "%s (%s)", loop.TextOf(p.GetModelEnded().GetMessage()), p.GetModelEnded().GetFinishReason())
		u := p.GetModelEnded().GetUsage()
		a.add(ev, "usage", "%d tokens in, %d out, cost %d", u.GetInputTokens(), u.GetOutputTokens(), u.GetCostMicros())
	case p.GetToolRequested() != nil:
		a.add(ev, "arguments", "%s %s", p.GetToolRequested().GetCall().GetName(), p.GetToolRequested().GetCall().GetArgumentsJson())
	case p.GetToolDecided() != nil:
		a.add(ev, "decision", "%s (%s)", p.GetToolDecided().GetDecision(), p.GetToolDecided().GetRule())
	case p.GetToolEnded() != nil:
		r := p.GetToolEnded().GetResult()
		a.add(ev, "result", "%s %s %s\n%s", r.GetName(), r.GetStatus(), r.GetReason(), r.GetText())
	}
}
