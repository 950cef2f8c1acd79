package run

import (
	"strings"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// parseTaskResult reads what the task service posts when a task of the thread has ended.
func parseTaskResult(payload []byte, into *threadv1.TaskDelivered) error {
	var d taskv1.TaskDelivery
	if err := proto.Unmarshal(payload, &d); err != nil {
		return err
	}
	into.TaskId, into.State = d.GetTaskId(), strings.TrimPrefix(d.GetState().String(), "TASK_STATE_")
	into.Text, into.Reason = d.GetResult().GetText(), d.GetError().GetReason()
	if into.Text == "" {
		into.Text = d.GetError().GetMessage()
	}
	return nil
}
