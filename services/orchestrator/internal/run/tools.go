package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// stopGrace is how long a tool may take to return after its time was up or its run stopped. Then it is left behind.
const stopGrace = 5 * time.Second

// errToolTimeout is the cause of the end of a call whose time was up.
var errToolTimeout = tool.ErrTimedOut

// toolFlight is a call that works.
type toolFlight struct {
	cancel  context.CancelCauseFunc
	started time.Time
}

// toolNews is the result of a call, or what a waiting call tells on the way.
type toolNews struct {
	call   string
	result tool.Result
	// forward are events of a child, for the stream of this run.
	forward []*threadv1.EventPayload
}

// dispatch commits that calls leave, and then sends them.
func (a *actor) dispatch(calls []*loop.Call) error {
	now := a.m.now()
	for _, c := range calls {
		spec := a.spec(c)
		id := effect.New(a.key, a.state.Run.ID, c.RequestSeq, int(c.Ordinal)+c.Dispatches<<16, now)
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolDispatched{ToolDispatched: &threadv1.ToolDispatched{
			CallId: c.Call.GetId(), Name: c.Call.GetName(), Effect: id, EffectKind: string(spec.EffectKind), ArgumentsJson: arguments(c),
		}}}); err != nil {
			return err
		}
	}
	if err := a.flush(false); err != nil {
		return err
	}
	for _, c := range calls {
		a.launch(c)
	}
	return nil
}

func (a *actor) spec(c *loop.Call) tool.Spec {
	if t, ok := a.kit.Tool(c.Call.GetName()); ok {
		return t.Spec()
	}
	return tool.Spec{Name: c.Call.GetName()}
}

// launch starts a call whose dispatch is committed.
func (a *actor) launch(c *loop.Call) {
	t, ok := a.kit.Tool(c.Call.GetName())
	call := tool.Call{ID: c.Call.GetId(), Name: c.Call.GetName(), Arguments: json.RawMessage(c.Dispatched.GetArgumentsJson())}
	ctx, cancel := context.WithCancelCause(a.callContext(c, t))
	a.tools[call.ID] = &toolFlight{cancel: cancel, started: a.m.now()}
	if !ok {
		// The definition changed under a run that was taken over.
		a.tellTool(toolNews{call: call.ID, result: tool.Failed("TOOL_UNKNOWN", "The tool is not there any more.")})
		cancel(nil)
		return
	}
	limit := t.Spec().Timeout
	if limit <= 0 {
		limit = tool.DefaultTimeout
	}
	followed := a.follow(ctx, c)
	a.m.work.Go(func() {
		defer cancel(nil)
		result := runBounded(ctx, cancel, insistent{t}, call, limit)
		followed()
		a.tellTool(toolNews{call: call.ID, result: result})
	})
}

// tellTool hands news to the actor, unless the actor has gone.
func (a *actor) tellTool(news toolNews) {
	select {
	case a.toolNews <- news:
	case <-a.thread.Context().Done():
	}
}

// callContext carries the identity with the effect id, and as much of the run's capability as the call needs.
func (a *actor) callContext(c *loop.Call, t tool.Tool) context.Context {
	id := a.identity
	id.Effect = c.Dispatched.GetEffect()
	ctx := a.withIdentity(id)
	if a.credential == nil {
		return ctx
	}
	spec := tool.Spec{ReadOnly: true}
	if t != nil {
		spec = t.Spec()
	}
	verbs, prefixes := callVerbs(spec, a.state.Planning)
	return credential.NewContext(ctx, a.credential.Narrow(verbs, prefixes))
}

var readVerbs = []string{"fs.read", "memory.read", "task.read", "thread.read", "run.read", "agent.read"}

// callVerbs are what one call may do at other services, whatever its arguments say. In plan mode only the plan can be written.
func callVerbs(spec tool.Spec, planning bool) (verbs, prefixes []string) {
	verbs = append([]string(nil), readVerbs...)
	if spec.ReadOnly {
		return verbs, nil
	}
	switch spec.EffectKind {
	case tool.EffectFiles:
		verbs = append(verbs, "fs.write")
		if planning {
			prefixes = []string{"plans"}
		}
	case tool.EffectExec:
		verbs = append(verbs, "exec", "fs.write")
	case tool.EffectMemory:
		verbs = append(verbs, "memory.write", "fs.write")
	case tool.EffectTask: // a child gets at most what its parent has: the creating call hands it all on
		return nil, nil
	}
	return verbs, prefixes
}

// runBounded runs a tool within its time. A tool that does not return when it must is left behind; its result is lost.
func runBounded(ctx context.Context, cancel context.CancelCauseFunc, t tool.Tool, call tool.Call, limit time.Duration) tool.Result {
	done := make(chan tool.Result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- tool.Failed("TOOL_PANICKED", fmt.Sprintf("The tool failed inside: %v", p)).With("stack", string(debug.Stack()[:min(len(debug.Stack()), 2048)]))
			}
		}()
		done <- t.Run(ctx, call)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-done:
		return stopped(ctx, r, limit)
	case <-timer.C:
		cancel(errToolTimeout)
	case <-ctx.Done():
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return stopped(ctx, r, limit)
	case <-grace.C:
		return stopped(ctx, tool.Failed("TOOL_STUCK", "The tool did not return."), limit)
	}
}

// stopped says why a call that did not work ended, when it was ended from outside.
func stopped(ctx context.Context, r tool.Result, limit time.Duration) tool.Result {
	if ctx.Err() == nil || r.IsOK() || r.Suspend != nil {
		return r
	}
	if errors.Is(context.Cause(ctx), errToolTimeout) {
		r.Status, r.Reason = threadv1.ToolStatus_TOOL_STATUS_TIMED_OUT, "TIMED_OUT"
		r.Text = fmt.Sprintf("The call did not end within %s and was stopped.", limit) + after(r.Text)
		return r
	}
	r.Status, r.Reason, r.Text = threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, "INTERRUPTED", "The call was stopped."+after(r.Text)
	return r
}

func after(text string) string {
	if text == "" {
		return ""
	}
	return "\n" + text
}

// toolTold takes the result of a call.
func (a *actor) toolTold(news toolNews) error {
	r := a.state.Run
	f := a.tools[news.call]
	if r == nil || f == nil {
		return nil
	}
	if news.forward != nil {
		if err := a.stage(news.forward...); err != nil {
			return err
		}
		return a.flush(false)
	}
	delete(a.tools, news.call)
	c := r.Call(news.call)
	if c == nil || c.Result != nil {
		return nil
	}
	if errors.Is(context.Cause(a.thread.Context()), journal.ErrLost) {
		return journal.ErrLost
	}
	if a.stagedAt.IsZero() {
		a.stagedAt = a.m.now()
	}
	if i := news.result.Suspend; i != nil && r.Cancel == nil && !r.Interrupted {
		return a.request(c, i)
	}
	outside := tool.EffectKind(c.Dispatched.GetEffectKind()).Outside()
	if outside && news.result.Status == threadv1.ToolStatus_TOOL_STATUS_UNKNOWN && !a.state.Stopping(a.facts()) {
		return a.unknown(c, clip(news.result.Text, 1000))
	}
	out := a.toolResult(c, news.result)
	for _, p := range news.result.Events {
		if err := a.stage(p); err != nil {
			return err
		}
	}
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolEnded{ToolEnded: &threadv1.ToolEnded{
		Result: out, Latency: durationpb.New(a.m.now().Sub(f.started)),
	}}})
}

// toolResult is the result as it is journaled: bounded, the rest in a file.
func (a *actor) toolResult(c *loop.Call, r tool.Result) *threadv1.ToolResult {
	if r.Status == threadv1.ToolStatus_TOOL_STATUS_UNSPECIFIED {
		r.Status, r.Reason = threadv1.ToolStatus_TOOL_STATUS_ERROR, "NO_RESULT"
		if r.Text == "" {
			r.Text = "The call ended without a result."
		}
	}
	if r.Suspend != nil {
		r.Status, r.Reason, r.Text = threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, "INTERRUPTED", "The run was stopped before the question was asked."
	}
	out := result(c, r.Status, r.Reason, r.Text)
	out.FullTextPath, out.Media = r.FullTextPath, r.Media
	if len(r.Data) > 0 {
		if data, err := structpb.NewStruct(plain(r.Data)); err == nil {
			out.Data = data
		}
	}
	a.evict(c, out)
	return out
}

// plain turns values into those that a Struct can hold, by way of JSON.
func plain(in map[string]any) map[string]any {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil
	}
	var out map[string]any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}
