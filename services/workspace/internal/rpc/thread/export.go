package thread

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	// exportBytes is about how much one message of an export holds.
	exportBytes = 256 << 10
	// blobPart is how much of a blob one line holds, for lines must fit into messages.
	blobPart = 768 << 10
)

// exportLine is one line of an export. Lines of type "thread" hold the head and come first, then those of type "event" in order, each followed
// by the blobs that it is the first to name, in lines of type "blob": parts of at most 768 KiB in order of offset.
type exportLine struct {
	Type   string          `json:"type"`
	Thread json.RawMessage `json:"thread,omitempty"`
	Event  json.RawMessage `json:"event,omitempty"`
	// Reason of a redaction.
	Reason string `json:"reason,omitempty"`
	// SHA256, Size, Offset and Data (base64) are of a blob.
	SHA256 string `json:"sha256,omitempty"`
	Size   int    `json:"size,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Data   []byte `json:"data,omitempty"`
}

// Export implements the RPC.
func (s *Server) Export(r *threadv1.ExportRequest, stream grpc.ServerStreamingServer[threadv1.ExportResponse]) error {
	ctx := stream.Context()
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return err
	}
	head, err := s.store.Head(ctx, t)
	if err != nil {
		return err
	}
	x := &exporter{stream: stream, sum: sha256.New(), seen: make(map[journal.Sum]bool)}
	if err := x.line(exportLine{Type: "thread"}, headProto(head)); err != nil {
		return err
	}
	_, _, err = journal.Scan(ctx, s.store, t, 0, 0, nil, func(e journal.Event) error {
		event, err := eventProto(&e)
		if err != nil {
			return err
		}
		x.events++
		if err := x.line(exportLine{Type: "event", Reason: e.Reason}, event); err != nil || !r.GetIncludeBlobs() {
			return err
		}
		return blobRefs(event.GetPayload().ProtoReflect(), false, func(text string, _ bool) error { return s.exportBlob(x, t.Tenant, text) })
	})
	if err != nil {
		return err
	}
	if err := x.flush(); err != nil {
		return err
	}
	return stream.Send(&threadv1.ExportResponse{Item: &threadv1.ExportResponse_End{
		End: &threadv1.ExportEnd{Events: x.events, Sha256: hex.EncodeToString(x.sum.Sum(nil))},
	}})
}

// exportBlob writes a blob once. One that is gone is passed over: the event that names it was allowed to.
func (s *Server) exportBlob(x *exporter, tenant, text string) error {
	sum, ok := journal.ParseSum(text)
	if !ok || x.seen[sum] {
		return nil
	}
	x.seen[sum] = true
	data, err := s.store.GetBlob(x.stream.Context(), tenant, sum)
	if errdefs.ReasonOf(err) == journal.ReasonBlobNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	for offset := 0; offset == 0 || offset < len(data); offset += blobPart {
		part := data[offset:min(len(data), offset+blobPart)]
		if err := x.line(exportLine{Type: "blob", SHA256: text, Size: len(data), Offset: offset, Data: part}, nil); err != nil {
			return err
		}
	}
	return nil
}

// exporter collects whole lines into messages.
type exporter struct {
	stream grpc.ServerStreamingServer[threadv1.ExportResponse]
	sum    hash.Hash
	seen   map[journal.Sum]bool
	buffer []byte
	events int64
}

// line adds a line, with the message m in the field of its type.
func (x *exporter) line(l exportLine, m proto.Message) error {
	if m != nil {
		body, err := protojson.Marshal(m)
		if err != nil {
			return err
		}
		if l.Type == "thread" {
			l.Thread = body
		} else {
			l.Event = body
		}
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if len(x.buffer) > 0 && len(x.buffer)+len(text) > exportBytes {
		if err := x.flush(); err != nil {
			return err
		}
	}
	x.buffer = append(x.buffer, text...)
	return nil
}

// flush sends what was collected.
func (x *exporter) flush() error {
	if len(x.buffer) == 0 {
		return nil
	}
	lines := string(x.buffer)
	x.sum.Write(x.buffer)
	x.buffer = x.buffer[:0]
	return x.stream.Send(&threadv1.ExportResponse{Item: &threadv1.ExportResponse_Lines{Lines: lines}})
}
