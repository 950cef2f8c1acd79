package run

import (
	"fmt"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// closeCalls gives calls the result that follows from what is journaled, without anything being done.
func (a *actor) closeCalls(act loop.Action) error {
	for _, c := range act.Calls {
		if act.Status != threadv1.ToolStatus_TOOL_STATUS_UNSPECIFIED {
			if err := a.giveUp(c, act.Status, act.Reason); err != nil {
				return err
			}
			continue
		}
		if err := a.stage(ended(a.closing(c))); err != nil {
			return err
		}
	}
	return nil
}

// giveUp closes a call because its run stops.
func (a *actor) giveUp(c *loop.Call, status threadv1.ToolStatus, reason string) error {
	if c.Waiting() {
		if err := a.stage(resolved(&threadv1.InteractionResolved{InteractionId: c.Interaction.GetId(), Resolution: loop.Cancelled})); err != nil {
			return err
		}
	}
	return a.stage(ended(result(c, status, reason, "The run was stopped before this call was made.")))
}

// closing is the result of a call that was denied, answered, skipped or has expired.
func (a *actor) closing(c *loop.Call) *threadv1.ToolResult {
	res := c.Resolution
	if res == nil {
		return result(c, threadv1.ToolStatus_TOOL_STATUS_DENIED, "DENIED", fmt.Sprintf("Not allowed: %s.", c.Rule))
	}
	switch res.GetResolution() {
	case loop.AnsweredR:
		return a.answered(c, res)
	case loop.Skip:
		return result(c, threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, "OUTCOME_UNKNOWN", "Whether this call took place is not known. It was not made again.")
	case loop.Expired:
		return result(c, threadv1.ToolStatus_TOOL_STATUS_TIMED_OUT, "EXPIRED", "Nobody answered in time.")
	case loop.Denied:
		text := "A person refused this call."
		if res.GetAnswer() != "" {
			text = "A person refused this call: " + res.GetAnswer()
		}
		return result(c, threadv1.ToolStatus_TOOL_STATUS_DENIED, "DENIED_BY_PERSON", text)
	}
	return result(c, threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, "CANCELLED", "The question was withdrawn.")
}

func (a *actor) answered(c *loop.Call, res *threadv1.InteractionResolved) *threadv1.ToolResult {
	if given := res.GetResult(); given != nil {
		out := result(c, given.GetStatus(), given.GetReason(), given.GetText())
		out.Data, out.Media = given.GetData(), given.GetMedia()
		if out.Status == threadv1.ToolStatus_TOOL_STATUS_UNSPECIFIED {
			out.Status = threadv1.ToolStatus_TOOL_STATUS_OK
		}
		return out
	}
	text := res.GetAnswer()
	if c.Interaction.GetSecret() {
		text = "The user has entered the secret. It is not shown here."
	}
	return result(c, threadv1.ToolStatus_TOOL_STATUS_OK, "", text)
}
