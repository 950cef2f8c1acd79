package replay

import (
	"fmt"
	"slices"
	"strings"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/prompt"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

const (
	// maxDiffBytes bounds one difference.
	maxDiffBytes = 16 << 10
	// diffContext is how many equal lines are shown around a difference.
	diffContext = 3
)

// request makes a request again.
func (p *replaying) request(before *loop.Thread, ev *threadv1.Event, recorded *threadv1.RequestPrepared) error {
	k, err := p.kit(before.Run)
	if err != nil {
		return err
	}
	f, err := run.FactsOf(before.Run)
	if err != nil {
		return err
	}
	texts, gone, err := p.material(identity.NewBucketContext(identity.NewContext(p.ctx, f.Identity), f.Bucket), k.Texts(), recorded.GetItems())
	if err != nil {
		return err
	}
	p.out.Requests++
	_, replayed, err := k.WithTexts(texts).Compile(p.ctx, run.Compile{Thread: before, Run: before.Run, Model: p.model(recorded), Final: final(before)})
	if err != nil {
		p.compare(ev, "prompt", manifest(recorded, nil), "it can't be made: "+err.Error()+"\n")
		return nil
	}
	if !slices.Equal(replayed.GetTools(), recorded.GetTools()) {
		p.compare(ev, "tools", lines(recorded.GetTools()), lines(replayed.GetTools()))
	}
	if replayed.GetPromptSha256() == recorded.GetPromptSha256() {
		p.out.Equal++
		return nil
	}
	replayed.Model = recorded.GetModel()
	p.compare(ev, "prompt", manifest(recorded, nil), manifest(replayed, gone))
	return nil
}

// final says whether the request that comes next is the one without tools.
func final(t *loop.Thread) bool {
	if t.Run.Model != nil {
		return t.Run.Step > t.Run.Settings.MaxSteps
	}
	return t.Next(loop.Facts{Now: t.Run.StartTime}).Final
}

// model is the one that the request was for: as it is known now, else as far as the request tells.
func (p *replaying) model(recorded *threadv1.RequestPrepared) model.Info {
	if resolved, err := p.Models.Resolve(p.ctx, recorded.GetModel()); err == nil && prompt.InputLimit(resolved.Info.ContextTokens) == int(recorded.GetLimitTokens()) {
		return resolved.Info
	}
	low, high := 0, 1<<26
	for low < high { // the limit grows with the window
		if mid := (low + high) / 2; prompt.InputLimit(max(mid, 1)) < int(recorded.GetLimitTokens()) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return model.Info{ContextTokens: low}
}

// manifest shows what a request is made of, a line a part.
func manifest(m *threadv1.RequestPrepared, gone map[string]bool) string {
	var b strings.Builder
	for _, i := range m.GetItems() {
		fmt.Fprintf(&b, "%s %s %s: %d tokens", i.GetKind(), i.GetSource(), i.GetRevision(), i.GetTokens())
		if i.GetNote() != "" {
			fmt.Fprintf(&b, " (%s)", i.GetNote())
		}
		if gone[i.GetSource()] && i.GetSource() != "" {
			b.WriteString(" (the revision of then is not kept any more)")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%d of %d tokens, model %s, prompt %s\n", m.GetTokens(), m.GetLimitTokens(), m.GetModel(), m.GetPromptSha256())
	return b.String()
}

func lines(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\n") + "\n"
}

// differ is the difference of two texts; nil when there is none.
func differ(seq int64, what, recorded, replayed string) *orchestratorv1.ReplayDifference {
	if recorded == replayed {
		return nil
	}
	text, _ := fsops.Unified(what, []byte(recorded), []byte(replayed), diffContext, maxDiffBytes)
	return &orchestratorv1.ReplayDifference{Seq: seq, What: what, Diff: text}
}
