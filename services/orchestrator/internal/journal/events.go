package journal

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Schema is the version of the events that this package writes, and the highest that it asks for.
const Schema = 1

// TypeOf names the type of a payload: its field with the first underscore as a slash, for example "tool/ended".
func TypeOf(p *threadv1.EventPayload) string {
	m := p.ProtoReflect()
	field := m.WhichOneof(kindOneof)
	if field == nil {
		return ""
	}
	return strings.Replace(string(field.Name()), "_", "/", 1)
}

var kindOneof = (&threadv1.EventPayload{}).ProtoReflect().Descriptor().Oneofs().ByName("kind")

// optional are the types that a reader may pass over without getting the state of the thread wrong.
var optional = map[protoreflect.Name]bool{
	"step_started": true, "subagent_event": true, "sandbox_changed": true, "notice_shown": true, "recovery_taken_over": true, "tool_requested": true,
	"checkpoint_written": true,
}

// required says whether a reader that does not know the payload must stop.
func required(p *threadv1.EventPayload) bool {
	field := p.ProtoReflect().WhichOneof(kindOneof)
	return field != nil && !optional[field.Name()]
}
