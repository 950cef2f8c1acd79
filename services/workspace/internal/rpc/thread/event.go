package thread

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	// schema is the one version of event payloads that there is; a writer that states none means it.
	schema = 1
	// titleRunes is how much of a first input becomes the title.
	titleRunes = 80
)

// eventOf reads an event of a commit. Payload fields that this program does not know are kept.
func eventOf(e *threadv1.Event) (journal.Event, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.GetPayload())
	if err != nil {
		return journal.Event{}, errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "the payload of event %q cannot be encoded: %w", e.GetId(), err)
	}
	out := journal.Event{
		Schema: max(schema, e.GetSchema()), ID: e.GetId(), Type: e.GetType(), RunID: e.GetRunId(), TurnID: e.GetTurnId(), Step: e.GetStep(),
		Required: e.GetRequired(), Payload: payload,
	}
	if out.Type == "" {
		out.Type = typeOf(e.GetPayload())
	}
	err = blobRefs(e.GetPayload().ProtoReflect(), false, func(text string, optional bool) error {
		sum, ok := journal.ParseSum(text)
		if !ok {
			return errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "event %q names a blob that is not 64 lower-case hex digits", e.GetId())
		}
		out.Blobs = append(out.Blobs, journal.BlobRef{SHA256: sum, Optional: optional})
		return nil
	})
	return out, err
}

// typeOf is the type that a payload has unless its writer says otherwise: the name of its field, the first underscore as a slash.
func typeOf(p *threadv1.EventPayload) string {
	m := p.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if field == nil || field.Name() == "other" {
		return ""
	}
	return strings.Replace(string(field.Name()), "_", "/", 1)
}

// blobRefs calls found for every blob that a message names, at any depth. What a child's forwarded event names is optional: the child's
// thread may be gone.
func blobRefs(m protoreflect.Message, optional bool, found func(sum string, optional bool) error) error {
	if !m.IsValid() {
		return nil
	}
	optional = optional || m.Descriptor().FullName() == (*threadv1.SubagentEvent)(nil).ProtoReflect().Descriptor().FullName()
	var err error
	visit := func(v protoreflect.Value) bool {
		err = blobRefs(v.Message(), optional, found)
		return err == nil
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			// Maps are in google.protobuf.Struct alone, which names no blobs.
			return true
		case f.Kind() == protoreflect.StringKind && f.Name() == "blob_sha256":
			err = found(v.String(), optional)
		case f.Message() != nil && f.IsList():
			for i := 0; i < v.List().Len() && visit(v.List().Get(i)); i++ {
			}
		case f.Message() != nil:
			visit(v)
		}
		return err == nil
	})
	return err
}

// titleOf makes a title of a user's input: its first line with text.
func titleOf(e *threadv1.Event) string {
	for _, block := range e.GetPayload().GetInputReceived().GetMessage().GetBlocks() {
		for line := range strings.Lines(block.GetText()) {
			if line = strings.Join(strings.Fields(line), " "); line != "" {
				return cut(strings.ReplaceAll(line, "\x00", ""), titleRunes)
			}
		}
	}
	return ""
}

// cut shortens a text to n characters, with a mark.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:n-1])) + "…"
}

// eventProto gives an event back.
func eventProto(e *journal.Event) (*threadv1.Event, error) {
	out := &threadv1.Event{
		Schema: e.Schema, Id: e.ID, Seq: e.Seq, Time: timestamppb.New(e.Time), Type: e.Type, RunId: e.RunID, TurnId: e.TurnID, Step: e.Step,
		Required: e.Required, PayloadSha256: e.PayloadHash.String(), Redacted: e.Redacted,
	}
	if e.Redacted {
		return out, nil
	}
	out.Payload = new(threadv1.EventPayload)
	if err := proto.Unmarshal(e.Payload, out.Payload); err != nil {
		return nil, journal.Damaged(e.Seq, "the payload cannot be decoded")
	}
	return out, nil
}
