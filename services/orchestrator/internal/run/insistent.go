package run

import (
	"context"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	// answerPatience is how long a call waits for a service that does not answer, within the time that the call has.
	answerPatience = 30 * time.Second
	// firstRepeat and longestRepeat bound the wait between two attempts.
	firstRepeat, longestRepeat = 50 * time.Millisecond, 2 * time.Second
)

// insistent makes a call again while a service of ours gives no answer to it: it restarts, or the connection was cut. The effect id is the same each time, so the service gives the recorded
// outcome, or does it now. Told to the model as a failure, it would be done a second time, or never.
type insistent struct{ tool.Tool }

// Run implements [tool.Tool].
func (i insistent) Run(ctx context.Context, call tool.Call) tool.Result {
	spec := i.Spec()
	end := time.Now().Add(answerPatience)
	for wait := firstRepeat; ; wait = min(2*wait, longestRepeat) {
		r := i.Tool.Run(ctx, call)
		if !r.Unanswered || !spec.ReadOnly && spec.EffectKind.Outside() {
			return r
		}
		if time.Now().After(end) {
			return givenUp(spec, r)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return givenUp(spec, r)
		case <-timer.C:
		}
	}
}

// givenUp is the result of a call that no service answered.
func givenUp(spec tool.Spec, r tool.Result) tool.Result {
	if spec.ReadOnly {
		r.Reason, r.Text = "UNAVAILABLE", "The service that answers this does not answer. Try again later."
		return r
	}
	r.Status, r.Reason = threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, "OUTCOME_UNKNOWN"
	r.Text = "The service did not answer: whether the call took place is not known. Look before you repeat it."
	return r
}
