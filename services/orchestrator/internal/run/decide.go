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
	name := c.Call.GetName()
	t, ok := a.kit.Tool(name)
	if !ok {
		return a.refuse(c, "unknown tool", threadv1.ToolStatus_TOOL_STATUS_ERROR, "TOOL_UNKNOWN",
			fmt.Sprintf("There is no tool %q. The tools are: %s.", clip(name, 80), strings.Join(a.kit.ToolNames(), ", ")))
	}
	if problem := badArguments(c.Arguments); problem != "" {
		return a.refuse(c, "arguments", threadv1.ToolStatus_TOOL_STATUS_ERROR, "ARGUMENTS_INVALID", problem)
	}
	if limit := a.state.Run.Settings.Children; limit > 0 && t.Spec().EffectKind == tool.EffectTask && strings.HasPrefix(name, "agent_") && !t.Spec().ReadOnly && a.state.Run.Children >= limit {
		return a.refuse(c, "budget", threadv1.ToolStatus_TOOL_STATUS_DENIED, "BUDGET_CHILDREN", fmt.Sprintf("This run may create %d tasks and has created them.", limit))
	}
	d := p.Decide(t.Spec(), tool.Call{ID: c.Call.GetId(), Name: name, Arguments: json.RawMessage(arguments(c))})
	if err := a.stage(decided(c, d.Verdict.String(), d.Rule, "")); err != nil || d.Verdict != policy.Ask {
		return err
	}
	return a.request(c, &threadv1.Interaction{
		Kind: loop.KindApproval, Prompt: fmt.Sprintf("May %s be called? (%s)", name, d.Rule),
	})
}

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

// refuse decides against a call and gives it its result at once.
func (a *actor) refuse(c *loop.Call, rule string, status threadv1.ToolStatus, reason, text string) error {
	return a.stage(decided(c, loop.Deny, rule, ""), ended(result(c, status, reason, text)))
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
