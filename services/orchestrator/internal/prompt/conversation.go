package prompt

import (
	"encoding/json"
	"fmt"
	"strings"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

// messages turns journaled messages into those of a request. Nothing is invented and nothing repaired: pairs of call and result that are not
// whole are refused by the request's own check.
func messages(in []*threadv1.Message) ([]model.Message, error) {
	out := make([]model.Message, 0, len(in)+2)
	for _, m := range in {
		role, ok := roles[m.GetRole()]
		if !ok {
			return nil, errdefs.New(errdefs.ErrInternal, definition.Domain, "MESSAGE_INVALID", "message %s has the role %v, which has no place in a conversation", m.GetId(), m.GetRole())
		}
		msg := model.Message{Role: role, Origin: model.Origin(m.GetOrigin())}
		for _, b := range m.GetBlocks() {
			msg.Blocks = append(msg.Blocks, block(b))
		}
		out = append(out, msg)
	}
	return out, nil
}

var roles = map[threadv1.Role]model.Role{
	threadv1.Role_ROLE_USER: model.RoleUser, threadv1.Role_ROLE_ASSISTANT: model.RoleAssistant, threadv1.Role_ROLE_TOOL: model.RoleTool,
}

func block(b *threadv1.ContentBlock) model.Block {
	switch b := b.GetBlock().(type) {
	case *threadv1.ContentBlock_Thinking:
		return model.Block{Type: model.BlockThinking, Text: b.Thinking.GetText(), Signature: b.Thinking.GetSignature()}
	case *threadv1.ContentBlock_Media:
		if strings.HasPrefix(b.Media.GetMimeType(), "image/") && len(b.Media.GetData()) > 0 {
			return model.Block{Type: model.BlockImage, Image: &model.Image{MediaType: b.Media.GetMimeType(), Data: b.Media.GetData()}}
		}
		return model.Text(fmt.Sprintf("[attached: %s, %s]", b.Media.GetName(), b.Media.GetMimeType()))
	case *threadv1.ContentBlock_ToolCall:
		return model.Call(b.ToolCall.GetId(), b.ToolCall.GetName(), arguments(b.ToolCall.GetArgumentsJson()))
	case *threadv1.ContentBlock_ToolResult:
		r := b.ToolResult
		return model.Result(r.GetCallId(), r.GetName(), resultText(r), r.GetStatus() != threadv1.ToolStatus_TOOL_STATUS_OK)
	case *threadv1.ContentBlock_Text:
		return model.Text(b.Text)
	default:
		return model.Text("[content of a kind that this version does not know]")
	}
}

// arguments keeps what the model wrote; text that is no JSON is sent back as a JSON string, so that the request stays valid.
func arguments(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(map[string]string{"malformed": text})
	if err != nil {
		return json.RawMessage("{}") // a map of strings always marshals
	}
	return quoted
}

func resultText(r *threadv1.ToolResult) string {
	text := r.GetText()
	if text == "" {
		text = "[no output]"
	}
	if r.GetFullTextPath() != "" {
		text += "\n[the full text is in " + r.GetFullTextPath() + "]"
	}
	return text
}

// stateText tells what the journal knows and prose may have lost: plan mode, the task list, running tasks.
func stateText(s State, final bool) string {
	var lines []string
	if s.Planning {
		lines = append(lines, "Plan mode is ON: look around and write the plan; change nothing else. Only plan_exit, approved by a person, ends it.")
	} else if s.PlanPath != "" {
		lines = append(lines, "A plan is in "+s.PlanPath+".")
	}
	if len(s.Todos) > 0 {
		lines = append(lines, "Task list:")
		for _, t := range s.Todos {
			lines = append(lines, fmt.Sprintf("- %s: %s", t.GetStatus(), t.GetContent()))
		}
	}
	if len(s.Tasks) > 0 {
		lines = append(lines, "Tasks of this conversation that have not delivered their result (task_output, task_wait, task_cancel):")
		for _, t := range s.Tasks {
			lines = append(lines, fmt.Sprintf("- %s: agent %s %s", t.GetTaskId(), t.GetAgent(), t.GetLabel()))
		}
	}
	if final {
		lines = append(lines, finalPrompt)
	}
	if len(lines) == 0 {
		return ""
	}
	return "<RUNTIME_STATE>\n" + strings.Join(lines, "\n") + "\n</RUNTIME_STATE>"
}
