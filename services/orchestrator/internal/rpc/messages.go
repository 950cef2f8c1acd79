package rpc

import (
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

var roles = map[model.Role]threadv1.Role{
	model.RoleUser: threadv1.Role_ROLE_USER, model.RoleAssistant: threadv1.Role_ROLE_ASSISTANT, model.RoleTool: threadv1.Role_ROLE_TOOL,
}

// messagesOf shows the messages of a request.
func messagesOf(in []model.Message) []*threadv1.Message {
	out := make([]*threadv1.Message, 0, len(in))
	for _, m := range in {
		msg := &threadv1.Message{Role: roles[m.Role], Origin: string(m.Origin)}
		for _, b := range m.Blocks {
			msg.Blocks = append(msg.Blocks, blockOf(b))
		}
		out = append(out, msg)
	}
	return out
}

func blockOf(b model.Block) *threadv1.ContentBlock {
	switch b.Type {
	case model.BlockThinking:
		return &threadv1.ContentBlock{Block: &threadv1.ContentBlock_Thinking{Thinking: &threadv1.Thinking{Text: b.Text}}}
	case model.BlockToolCall:
		return &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{ToolCall: &threadv1.ToolCall{
			Id: b.ToolCall.ID, Name: b.ToolCall.Name, ArgumentsJson: string(b.ToolCall.Arguments),
		}}}
	case model.BlockToolResult:
		status := threadv1.ToolStatus_TOOL_STATUS_OK
		if b.ToolResult.IsError {
			status = threadv1.ToolStatus_TOOL_STATUS_ERROR
		}
		return &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolResult{ToolResult: &threadv1.ToolResult{
			CallId: b.ToolResult.CallID, Name: b.ToolResult.Name, Text: b.ToolResult.Content, Status: status,
		}}}
	case model.BlockImage:
		return &threadv1.ContentBlock{Block: &threadv1.ContentBlock_Media{Media: &threadv1.Media{MimeType: b.Image.MediaType}}}
	}
	return loop.TextBlock(b.Text)
}
