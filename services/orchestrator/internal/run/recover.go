package run

import (
	"fmt"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// takeOver goes on with a run whose owner died. Calls that have an answer are never made again. Built-in calls without one are made again under the same effect
// id: the service that acts gives the recorded outcome, or does it now. Of calls to the outside the outcome is unknown.
func (a *actor) takeOver() error {
	r := a.state.Run
	event := &threadv1.RecoveryTakenOver{FromOwner: a.thread.Previous(), ToOwner: a.m.owner.ID()}
	var again, unknown []*loop.Call
	for _, c := range r.Calls {
		if !c.Flying() {
			continue
		}
		event.OpenCallIds = append(event.OpenCallIds, c.Call.GetId())
		if a.repeatable(c) {
			again = append(again, c)
		} else {
			unknown = append(unknown, c)
		}
	}
	if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_RecoveryTakenOver{RecoveryTakenOver: event}}); err != nil {
		return err
	}
	if r.Model != nil {
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: &threadv1.ModelRetried{
			MessageId: r.Model.MessageID, Attempt: r.Model.Attempt, Reason: "taken_over", NextModel: r.Model.Model,
		}}}); err != nil {
			return err
		}
	}
	for _, c := range unknown {
		if err := a.unknown(c, ""); err != nil {
			return err
		}
	}
	if err := a.flush(false); err != nil {
		return err
	}
	if a.state.Stopping(a.facts()) {
		// What was asked to stop is not made again: whether it took place is not known, and nobody needs it.
		for _, c := range again {
			if err := a.stage(ended(result(c, threadv1.ToolStatus_TOOL_STATUS_INTERRUPTED, "INTERRUPTED", "The run was stopped. Whether this call took place is not known."))); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range again {
		a.launch(c)
	}
	return nil
}

// maxRetries is how often a call of unknown outcome is made again without a person.
const maxRetries = 2

// unknown puts a call of which nobody knows whether it took place to a person, or lets the setting answer. Either way the stream shows the question and who
// answered it.
func (a *actor) unknown(c *loop.Call, why string) error {
	prompt := fmt.Sprintf("Whether %s took place is not known. Retry, skip, or fail?", c.Call.GetName())
	if err := a.request(c, &threadv1.Interaction{Kind: loop.KindUnknown, Prompt: prompt + after(why)}); err != nil {
		return err
	}
	answer := a.state.Run.Settings.UnknownOutcome
	switch answer {
	case loop.UnknownRetry:
		// A built-in call has no new try: its own is recorded, and one under a new id would be a second effect that nobody asked for.
		if !tool.EffectKind(c.Dispatched.GetEffectKind()).Outside() || c.Dispatches > maxRetries {
			return nil
		}
	case loop.UnknownSkip, loop.UnknownFail:
	default:
		return nil
	}
	return a.stage(resolved(&threadv1.InteractionResolved{InteractionId: c.Interaction.GetId(), Resolution: answer, Actor: loop.ActorSetting}))
}

// repeatable says whether a call without an answer may be made again under its effect id.
func (a *actor) repeatable(c *loop.Call) bool {
	t, ok := a.kit.Tool(c.Call.GetName())
	if ok && t.Spec().ReadOnly {
		return true
	}
	return !tool.EffectKind(c.Dispatched.GetEffectKind()).Outside() && !effect.Expired(c.Dispatched.GetEffect(), a.m.now())
}

// cancelTasks asks the task service to stop what the run started in the background.
func (a *actor) cancelTasks() {
	if a.m.tasks == nil {
		return
	}
	ctx := a.context()
	for _, task := range a.state.Tasks {
		if task.Ended || task.RunID != a.state.Run.ID {
			continue
		}
		id := task.Started.GetTaskId()
		a.m.work.Go(func() {
			if _, err := a.m.tasks.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: id, Reason: "the run that started it was cancelled"}); err != nil {
				a.log.Warn("a task of a cancelled run could not be cancelled", "task", id, "error", err)
			}
		})
	}
}
