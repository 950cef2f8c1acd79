package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	taskWaitDefault = 60 * time.Second
	maxTaskIDs      = 64
)

type taskIn struct {
	TaskID string `json:"task_id" jsonschema:"id of the task"`
}

type taskCancelIn struct {
	TaskID string `json:"task_id" jsonschema:"id of the task"`
	Reason string `json:"reason,omitempty" jsonschema:"why"`
}

type taskWaitIn struct {
	TaskIDs []string `json:"task_ids" jsonschema:"ids of the tasks"`
	Any     bool     `json:"any,omitempty" jsonschema:"come back when one has ended; otherwise when all have"`
	Timeout *int     `json:"timeout_seconds,omitempty" jsonschema:"at most 600; 60 when left out"`
}

type taskListIn struct {
	All bool `json:"all,omitempty" jsonschema:"also tasks that have ended"`
}

func (env Env) taskTools() []tool.Tool {
	read := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectNone, ReadOnly: true, ConcurrencySafe: true, Timeout: spawnMax + waitSlack}
	}
	cancel := tool.Spec{Name: "task_cancel", EffectKind: tool.EffectTask, ConcurrencySafe: true,
		Description: "Ask a task to end, with everything that it started."}
	return []tool.Tool{
		tool.Func(read("task_output", "Show the state and the result of a task."), env.taskOutput),
		tool.Func(read("task_list", "List the tasks of this conversation that have not ended."), env.taskList),
		tool.Func(read("task_wait", "Wait for tasks to end."), env.taskWait),
		tool.Func(cancel, env.taskCancel),
	}
}

func (env Env) taskOutput(ctx context.Context, _ tool.Call, in taskIn) (tool.Result, error) {
	got, err := env.Tasks.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: in.TaskID})
	if err != nil {
		return tool.Result{}, err
	}
	if !ended(got.GetTask()) {
		return tool.OK(taskLine(got.GetTask())), nil
	}
	return outcome(got.GetTask()), nil
}

func (env Env) taskList(ctx context.Context, _ tool.Call, in taskListIn) (tool.Result, error) {
	req := &taskv1.ListTasksRequest{ParentSession: env.Thread.Session}
	if !in.All {
		req.States = []taskv1.TaskState{taskv1.TaskState_TASK_STATE_PENDING, taskv1.TaskState_TASK_STATE_RUNNING, taskv1.TaskState_TASK_STATE_WAITING}
	}
	got, err := env.Tasks.ListTasks(ctx, req)
	if err != nil {
		return tool.Result{}, err
	}
	var b strings.Builder
	for _, t := range got.GetTasks() {
		b.WriteString(taskLine(t) + "\n")
	}
	if got.GetNextPageToken() != "" {
		b.WriteString("[there are more]\n")
	}
	if b.Len() == 0 {
		return tool.OK("There are none."), nil
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n")), nil
}

func (env Env) taskWait(ctx context.Context, _ tool.Call, in taskWaitIn) (tool.Result, error) {
	if len(in.TaskIDs) == 0 || len(in.TaskIDs) > maxTaskIDs {
		return tool.Failed("ARGUMENTS_INVALID", fmt.Sprintf("Name 1 to %d tasks.", maxTaskIDs)), nil
	}
	wait, mode := taskWaitDefault, taskv1.WaitMode_WAIT_MODE_ALL
	if in.Timeout != nil {
		wait = spawnWait(in.Timeout)
	}
	if in.Any {
		mode = taskv1.WaitMode_WAIT_MODE_ANY
	}
	got, err := env.Tasks.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: in.TaskIDs, Mode: mode, MaxWait: durationpb.New(wait)})
	if err != nil {
		return tool.Result{}, err
	}
	lines := make([]string, 0, len(got.GetTasks()))
	for _, t := range got.GetTasks() {
		lines = append(lines, taskLine(t))
	}
	if !got.GetSatisfied() {
		lines = append(lines, "[the wait ran out; the tasks go on]")
	}
	return tool.OK(strings.Join(lines, "\n")), nil
}

func (env Env) taskCancel(ctx context.Context, _ tool.Call, in taskCancelIn) (tool.Result, error) {
	got, err := env.Tasks.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: in.TaskID, Reason: in.Reason})
	if err != nil {
		return tool.Result{}, err
	}
	if got.GetStopped() {
		return tool.OK(fmt.Sprintf("Task %s is %s.", in.TaskID, stateName(got.GetTask().GetState()))), nil
	}
	return tool.OK(fmt.Sprintf("Task %s was asked to end, and %d below it; task_output says when it has.", in.TaskID, got.GetDescendantsRequested())), nil
}

// outcome shows a task that has ended. Only COMPLETED is a success.
func outcome(t *taskv1.Task) tool.Result {
	text := t.GetResult().GetText()
	if t.GetResult().GetTruncated() {
		text += fmt.Sprintf("\n[cut; the whole text is in %s]", t.GetResult().GetFullTextPath())
	}
	if t.GetState() == taskv1.TaskState_TASK_STATE_COMPLETED {
		return tool.OK(text)
	}
	failed := fmt.Sprintf("Task %s is %s: %s", t.GetId(), stateName(t.GetState()), t.GetError().GetMessage())
	if text != "" {
		failed += "\nWhat it had so far:\n" + text
	}
	reason := t.GetError().GetReason()
	if reason == "" {
		reason = "TASK_" + stateName(t.GetState())
	}
	return tool.Failed(reason, failed)
}

func taskLine(t *taskv1.Task) string {
	line := fmt.Sprintf("%s  %s  %q", t.GetId(), stateName(t.GetState()), t.GetLabel())
	if t.GetCancelRequested() && !ended(t) {
		line += "  cancel requested"
	}
	if p := t.GetProgress(); p.GetMessage() != "" && !ended(t) {
		line += "  " + p.GetMessage()
	}
	if ended(t) {
		line += "  " + cut(firstLine(t.GetResult().GetText()+t.GetError().GetMessage()), 200)
	}
	return line
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func ended(t *taskv1.Task) bool {
	switch t.GetState() {
	case taskv1.TaskState_TASK_STATE_COMPLETED, taskv1.TaskState_TASK_STATE_FAILED, taskv1.TaskState_TASK_STATE_CANCELLED, taskv1.TaskState_TASK_STATE_PARTIAL:
		return true
	}
	return false
}

func stateName(s taskv1.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }
