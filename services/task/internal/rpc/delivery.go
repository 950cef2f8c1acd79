package rpc

import (
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// deliveredBytes bounds text and data of a result in a mail, whose payload may have 64 KiB in all.
const deliveredBytes = 16 << 10

// EncodeDelivery makes the payload of the mail by which a task's end reaches its parent thread.
func EncodeDelivery(t *task.Task) ([]byte, error) {
	progress := toProgress(t.Progress)
	if progress != nil {
		// The tail is output on its way; the result replaces it.
		progress.Tail = ""
	}
	result := toResult(t.Result)
	if result != nil {
		result.Text, result.Truncated = clip(result.GetText(), deliveredBytes, result.GetTruncated())
		if proto.Size(result.GetData()) > deliveredBytes {
			result.Data, result.Truncated = nil, true
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&taskv1.TaskDelivery{
		TaskId: t.ID, Kind: t.Kind, Label: t.Label, State: taskv1.TaskState(t.State), Result: result, Error: toFault(t.Fault),
		ChildThread: toThread(t.ChildThread), Progress: progress, EndTime: toTime(t.EndTime),
	})
}

// clip cuts text between characters, and says whether it is cut now.
func clip(text string, most int, truncated bool) (string, bool) {
	if len(text) <= most {
		return text, truncated
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}
