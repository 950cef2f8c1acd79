package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// maxArguments bounds the arguments of one call. More is a model that has lost its way, not a call.
const maxArguments = 1 << 20

// decide puts the policy's verdict on each call.
func (a *actor) decide(calls []*loop.Call) error {
	p := a.kit.Policy(a.state)
	for _, c := range calls {
		if err := a.decideOne(p, c); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) decideOne(p policy.Policy, c *loop.Call) error {
	d := judge(a.kit, p, a.state.Run, c)
	if d.refused != nil {
		return a.stage(decided(c, loop.Deny, d.rule, ""), ended(d.refused))
	}
	if err := a.stage(decided(c, d.verdict, d.rule, "")); err != nil || d.verdict != loop.Ask {
		return err
	}
	return a.request(c, &threadv1.Interaction{
		Kind: loop.KindApproval, Prompt: fmt.Sprintf("May %s be called? (%s)", c.Call.GetName(), d.rule),
	})
}

// judgement is what is to be done with a call, and why.
type judgement struct {
	verdict, rule string
	// refused is the result of a call that can't be made at all.
	refused *threadv1.ToolResult
}

// judge decides about a call. It depends on nothing but its arguments, so a replay comes to the same.
func judge(kit Kit, p policy.Policy, r *loop.Run, c *loop.Call) judgement {
	name := c.Call.GetName()
	refuse := func(rule string, status threadv1.ToolStatus, reason, text string) judgement {
		return judgement{loop.Deny, rule, result(c, status, reason, text)}
	}
	t, ok := kit.Tool(name)
	if !ok {
		return refuse("unknown tool", threadv1.ToolStatus_TOOL_STATUS_ERROR, "TOOL_UNKNOWN",
			fmt.Sprintf("There is no tool %q. The tools are: %s.", clip(name, 80), strings.Join(kit.ToolNames(), ", ")))
	}
	if problem := badArguments(c.Arguments); problem != "" {
		return refuse("arguments", threadv1.ToolStatus_TOOL_STATUS_ERROR, "ARGUMENTS_INVALID", problem)
	}
	if limit := r.Settings.Children; limit > 0 && t.Spec().EffectKind == tool.EffectTask && strings.HasPrefix(name, "agent_") && !t.Spec().ReadOnly && r.Children >= limit {
		return refuse("budget", threadv1.ToolStatus_TOOL_STATUS_DENIED, "BUDGET_CHILDREN", fmt.Sprintf("This run may create %d tasks and has created them.", limit))
	}
	d := p.Decide(t.Spec(), tool.Call{ID: c.Call.GetId(), Name: name, Arguments: json.RawMessage(arguments(c))})
	return judgement{verdict: d.Verdict.String(), rule: d.Rule}
}

// Judge is what a run with this kit decides about a call, and by which rule.
func Judge(kit Kit, t *loop.Thread, c *loop.Call) (verdict, rule string) {
	d := judge(kit, kit.Policy(t), t.Run, c)
	return d.verdict, d.rule
}

// Arguments are those with which a call is made.
func Arguments(c *loop.Call) string { return arguments(c) }

// request opens an interaction for a call. The id follows from the call's place in the run, so that a repeat is the same interaction.
func (a *actor) request(c *loop.Call, i *threadv1.Interaction) error {
	i = proto.CloneOf(i)
	nth := 0
	if c.Interaction != nil {
		nth = 1
	}
	i.Id = fmt.Sprintf("%s/i%d.%d.%d", a.state.Run.ID, a.state.Run.Step, c.Ordinal, nth+c.Dispatches)
	i.Call = proto.CloneOf(c.Call)
	i.Call.ArgumentsJson = c.Arguments
	if life := a.m.cfg.InteractionLife; life > 0 && i.GetExpireTime() == nil {
		i.ExpireTime = timestamppb.New(a.m.now().Add(life).Truncate(time.Millisecond))
	}
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_InteractionRequested{InteractionRequested: &threadv1.InteractionRequested{Interaction: i}}})
}

func decided(c *loop.Call, decision, rule, edited string) *threadv1.EventPayload {
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolDecided{ToolDecided: &threadv1.ToolDecided{
		CallId: c.Call.GetId(), Decision: decision, Rule: rule, EditedArgumentsJson: edited,
	}}}
}

func result(c *loop.Call, status threadv1.ToolStatus, reason, text string) *threadv1.ToolResult {
	return &threadv1.ToolResult{CallId: c.Call.GetId(), Name: c.Call.GetName(), Status: status, Reason: reason, Text: text}
}

// badArguments says what is wrong with arguments that are no JSON object; schemas are the tools' own.
func badArguments(args string) string {
	if len(args) > maxArguments {
		return fmt.Sprintf("The arguments have %d bytes, at most %d are allowed. Call again with less.", len(args), maxArguments)
	}
	if strings.TrimSpace(args) == "" {
		return ""
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(args), &object); err != nil || object == nil {
		return fmt.Sprintf("The arguments are not a JSON object: %s. Call again with an object.", clip(args, 80))
	}
	return ""
}

// arguments are those that count; none are the empty object.
func arguments(c *loop.Call) string {
	if strings.TrimSpace(c.Arguments) == "" {
		return "{}"
	}
	return c.Arguments
}

func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
