package workspace

import (
	"strings"

	"google.golang.org/protobuf/proto"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/importer"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// titleRunes is how much of a user's first message becomes the title of an imported thread.
const titleRunes = 80

// events encodes imported conversations as gantry.thread.v1 does.
type events struct{}

var _ importer.Encoder = events{}

// Started implements [importer.Encoder]. The run's cause says that nobody of this Gantry ran it.
func (events) Started(t identity.Thread, run string) (journal.Event, error) {
	return encode("run/started", &threadv1.EventPayload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{
		Cause: "import", RequestId: run, Identity: &commonv1.Identity{Tenant: t.Tenant, Agent: t.Agent, User: t.User, Session: t.Session},
	}}})
}

// Message implements [importer.Encoder].
func (events) Message(m importer.Message) (journal.Event, error) {
	out := &threadv1.Message{Id: m.ID, Role: map[importer.Role]threadv1.Role{
		importer.RoleUser: threadv1.Role_ROLE_USER, importer.RoleAssistant: threadv1.Role_ROLE_ASSISTANT, importer.RoleTool: threadv1.Role_ROLE_TOOL,
	}[m.Role]}
	add := func(b *threadv1.ContentBlock) { out.Blocks = append(out.Blocks, b) }
	if m.Text != "" {
		add(&threadv1.ContentBlock{Block: &threadv1.ContentBlock_Text{Text: m.Text}})
	}
	for _, c := range m.Calls {
		add(&threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{ToolCall: &threadv1.ToolCall{Id: c.ID, Name: c.Name, ArgumentsJson: c.Arguments}}})
	}
	for _, r := range m.Results {
		result := &threadv1.ToolResult{CallId: r.CallID, Name: r.Name, Status: threadv1.ToolStatus_TOOL_STATUS_OK, Text: r.Text}
		if r.Missing {
			result.Status, result.Reason = threadv1.ToolStatus_TOOL_STATUS_UNKNOWN, "NOT_IN_LOG"
		}
		add(&threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolResult{ToolResult: result}})
	}
	return encode("message/appended", &threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{Message: out}}})
}

// Ended implements [importer.Encoder].
func (events) Ended() (journal.Event, error) {
	return encode("run/ended", &threadv1.EventPayload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: &threadv1.RunEnded{
		State: threadv1.RunState_RUN_STATE_COMPLETED, Reason: "imported",
	}}})
}

// Title implements [importer.Encoder]: the first line of what a user says.
func (events) Title(m importer.Message) string {
	if m.Role != importer.RoleUser {
		return ""
	}
	for line := range strings.Lines(m.Text) {
		line = strings.Join(strings.Fields(strings.ReplaceAll(line, "\x00", "")), " ")
		if runes := []rune(line); len(runes) > titleRunes {
			line = string(runes[:titleRunes-1]) + "…"
		}
		if line != "" {
			return line
		}
	}
	return ""
}

func encode(kind string, p *threadv1.EventPayload) (journal.Event, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	return journal.Event{Type: kind, Payload: payload}, err
}
