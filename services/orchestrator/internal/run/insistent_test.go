package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// silent answers after some attempts; never when there are none.
type silent struct {
	spec     tool.Spec
	answers  int
	attempts int
}

func (s *silent) Spec() tool.Spec { return s.spec }

func (s *silent) Run(context.Context, tool.Call) tool.Result {
	if s.attempts++; s.attempts == s.answers {
		return tool.OK("done")
	}
	r := tool.Failed("", "unavailable")
	r.Unanswered = true
	return r
}

// A call that no service answered was told to the model as a failure, although it may have taken place: it is made again under the same effect id.
func TestUnansweredCallsAreMadeAgain(t *testing.T) {
	files, reads, outside := tool.Spec{EffectKind: tool.EffectFiles}, tool.Spec{EffectKind: tool.EffectFiles, ReadOnly: true}, tool.Spec{EffectKind: tool.EffectNetwork}
	for _, c := range []struct {
		name    string
		tool    silent
		stop    time.Duration // of the call; 0: never
		status  threadv1.ToolStatus
		reason  string
		once    bool
		atMost  time.Duration
		atLeast time.Duration
	}{
		{name: "answered at once", tool: silent{spec: files, answers: 1}, status: threadv1.ToolStatus_TOOL_STATUS_OK, once: true},
		{name: "answered later", tool: silent{spec: files, answers: 6}, status: threadv1.ToolStatus_TOOL_STATUS_OK, atLeast: time.Second, atMost: 3 * time.Second},
		{name: "never", tool: silent{spec: files}, status: threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, reason: "OUTCOME_UNKNOWN", atLeast: answerPatience, atMost: answerPatience + longestRepeat},
		{name: "a read, never", tool: silent{spec: reads}, status: threadv1.ToolStatus_TOOL_STATUS_ERROR, reason: "UNAVAILABLE", atLeast: answerPatience, atMost: answerPatience + longestRepeat},
		{name: "outside", tool: silent{spec: outside, answers: 2}, status: threadv1.ToolStatus_TOOL_STATUS_ERROR, once: true},
		{name: "stopped", tool: silent{spec: files}, stop: time.Second, status: threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, reason: "OUTCOME_UNKNOWN", atLeast: time.Second, atMost: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.stop)
					defer cancel()
				}
				began := time.Now()
				r := insistent{&c.tool}.Run(ctx, tool.Call{})
				took := time.Since(began)
				if r.Status != c.status || r.Reason != c.reason {
					t.Errorf("the result is %v %q, want %v %q", r.Status, r.Reason, c.status, c.reason)
				}
				if took < c.atLeast || took > c.atMost {
					t.Errorf("it took %s, want %s to %s", took, c.atLeast, c.atMost)
				}
				if c.once && c.tool.attempts != 1 {
					t.Errorf("%d attempts, want one", c.tool.attempts)
				}
			})
		})
	}
}
