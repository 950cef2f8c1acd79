package rest

import (
	"bytes"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
)

// jsonMarshaler is proto JSON. Fields that a request names and nobody knows are errors: a misspelt option must not be passed over in silence.
func jsonMarshaler() runtime.Marshaler {
	return &runtime.HTTPBodyMarshaler{Marshaler: &runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{EmitUnpopulated: true},
		UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: false},
	}}
}

// eventStream is proto JSON as server-sent events: each message is one event of one data line. It is chosen by
// "Accept: text/event-stream".
type eventStream struct{ runtime.Marshaler }

// ContentType implements runtime.Marshaler.
func (eventStream) ContentType(any) string { return "text/event-stream" }

// StreamContentType implements runtime.StreamContentType.
func (eventStream) StreamContentType(any) string { return "text/event-stream" }

// Marshal implements runtime.Marshaler. JSON of one message has no line feed outside of escapes, so it fits one data line.
func (m eventStream) Marshal(v any) ([]byte, error) {
	text, err := m.Marshaler.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append([]byte("data: "), bytes.TrimSpace(text)...), nil
}

// Delimiter implements runtime.Delimited: an empty line ends an event.
func (eventStream) Delimiter() []byte { return []byte("\n\n") }
