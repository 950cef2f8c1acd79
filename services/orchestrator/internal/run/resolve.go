package run

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/proto"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// resolve takes the first answer to an interaction.
func (a *actor) resolve(c *loop.Call, ans answer, who string) error {
	p := &threadv1.InteractionResolved{InteractionId: c.Interaction.GetId(), Actor: who}
	switch ans.Decision {
	case "approve":
		p.Resolution = loop.Approved
	case "deny":
		p.Resolution, p.Answer = loop.Denied, ans.Reason
	case "retry":
		p.Resolution = loop.Retry
	case "skip":
		p.Resolution = loop.Skip
	case "fail":
		p.Resolution = loop.Fail
	case "expired":
		p.Resolution = loop.Expired
	case "result":
		p.Resolution, p.Result = loop.AnsweredR, &threadv1.ToolResult{}
		if err := proto.Unmarshal(ans.Result, p.Result); err != nil {
			return a.stage(notice("error", "ANSWER_UNREADABLE", "The result of a client tool could not be read."))
		}
	default:
		p.Resolution = loop.AnsweredR
		if !c.Interaction.GetSecret() {
			p.Answer = strings.Join(ans.Answers, "\n")
		}
	}
	if ans.Edited != "" && p.Resolution == loop.Approved {
		if err := a.edit(c, ans.Edited, p); err != nil {
			return err
		}
	}
	if err := a.stage(resolved(p)); err != nil {
		return err
	}
	if ans.Rule == "" {
		return nil
	}
	if _, err := policy.ParseRule(ans.Rule); err != nil {
		return a.stage(notice("warning", "RULE_INVALID", "The rule to remember can't be read: "+clip(ans.Rule, 200)))
	}
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_PermissionChanged{PermissionChanged: &threadv1.PermissionChanged{AddedRule: ans.Rule}}})
}

// edit puts a person's arguments in place of the model's. They are held to the deny rules like any others: who may answer may not do more than the run.
func (a *actor) edit(c *loop.Call, edited string, p *threadv1.InteractionResolved) error {
	if problem := badArguments(edited); problem != "" {
		p.Resolution, p.Answer = loop.Denied, "the edited arguments can't be used. "+problem
		return nil
	}
	t, ok := a.kit.Tool(c.Call.GetName())
	if ok {
		d := a.kit.Policy(a.state).Decide(t.Spec(), tool.Call{ID: c.Call.GetId(), Name: c.Call.GetName(), Arguments: json.RawMessage(edited)})
		if d.Verdict == policy.Deny {
			p.Resolution, p.Answer = loop.Denied, "the edited arguments are not allowed: "+d.Rule
			return nil
		}
	}
	return a.stage(decided(c, loop.Ask, "edited by a person", edited))
}
