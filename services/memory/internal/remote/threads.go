package remote

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

const changesPage = 100

// Threads implements [memory.Threads] with a ThreadService.
type Threads struct{ client threadv1.ThreadServiceClient }

var _ memory.Threads = (*Threads)(nil)

// NewThreads makes Threads over a connection.
func NewThreads(conn grpc.ClientConnInterface) *Threads {
	return &Threads{client: threadv1.NewThreadServiceClient(conn)}
}

// Changes lists threads that changed.
func (t *Threads) Changes(ctx context.Context, cursor string) (memory.ThreadChanges, error) {
	page, err := t.client.Changes(under(ctx, ""), &threadv1.ChangesRequest{Cursor: cursor, PageSize: changesPage})
	if err != nil {
		return memory.ThreadChanges{}, failure(err)
	}
	out := memory.ThreadChanges{Cursor: page.GetCursor(), More: page.GetMore()}
	for _, head := range page.GetHeads() {
		out.Heads = append(out.Heads, memory.ThreadHead{Session: head.GetThread().GetSession(), Seq: head.GetSeq()})
	}
	for _, thread := range page.GetDeleted() {
		out.Deleted = append(out.Deleted, thread.GetSession())
	}
	return out, nil
}

// maxRedact is how many events one request may name.
const maxRedact = 1000

// Redact removes the content of events. A thread that is gone has none.
func (t *Threads) Redact(ctx context.Context, session string, seqs []int64, reason string) (int, error) {
	who, _ := identity.FromContext(ctx)
	who.Session, who.Effect = session, ""
	ctx = identity.NewContext(ctx, who)
	redacted := 0
	for part := range slices.Chunk(seqs, maxRedact) {
		answer, err := t.client.Redact(ctx, &threadv1.RedactRequest{Seqs: part, Reason: reason})
		if err = failure(err); errdefs.ReasonOf(err) == "THREAD_NOT_FOUND" {
			return redacted, nil
		}
		if err != nil {
			return redacted, err
		}
		redacted += int(answer.GetEvents())
	}
	return redacted, nil
}

// messageTypes are the events that carry what somebody said.
var messageTypes = []string{"input/received", "message/appended", "model/ended", "tool/ended"}

// Messages reads the messages of a thread. A thread without a journal has none.
func (t *Threads) Messages(ctx context.Context, session string, after, through int64) ([]memory.Message, int64, error) {
	who, _ := identity.FromContext(ctx)
	who.Session, who.Effect = session, ""
	ctx, cancel := context.WithCancel(identity.NewContext(ctx, who))
	defer cancel()
	req := &threadv1.ScanRequest{AfterSeq: after, Types: messageTypes}
	if through > after {
		req.Limit = through - after
	}
	stream, err := t.client.Scan(ctx, req)
	if err != nil {
		return nil, 0, failure(err)
	}
	var out []memory.Message
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, 0, errdefs.New(errdefs.ErrUnavailable, memory.Domain, "", "the scan of a thread ended early")
		case err != nil:
			err = failure(err)
			if errdefs.ReasonOf(err) == "THREAD_NOT_FOUND" && through == 0 && after == 0 {
				return nil, 0, nil
			}
			return nil, 0, err
		}
		if end := m.GetEnd(); end != nil {
			last := end.GetHead().GetSeq()
			if through > 0 {
				last = min(last, through)
			}
			return out, last, nil
		}
		e := m.GetEvent()
		if through > 0 && e.GetSeq() > through {
			return out, through, nil
		}
		if said, ok := messageOf(e); ok {
			out = append(out, said)
		}
	}
}

// messageOf reads what an event says; ok is false for events that say nothing, and for redacted ones.
func messageOf(e *threadv1.Event) (memory.Message, bool) {
	m := memory.Message{ID: e.GetId(), Seq: e.GetSeq(), Time: e.GetTime().AsTime()}
	if ended := e.GetPayload().GetToolEnded(); ended != nil {
		r := ended.GetResult()
		m.ID, m.Speaker, m.Text, m.Source = "call:"+r.GetCallId(), "tool", r.GetText(), r.GetName()
		// What a memory tool found is remembered already.
		m.Synthetic = strings.HasPrefix(r.GetName(), "memory_") || strings.HasPrefix(r.GetName(), "thread_") || strings.HasPrefix(r.GetName(), "session_")
		return m, m.Text != ""
	}
	var message *threadv1.Message
	switch p := e.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_InputReceived:
		message = p.InputReceived.GetMessage()
	case *threadv1.EventPayload_MessageAppended:
		message = p.MessageAppended.GetMessage()
	case *threadv1.EventPayload_ModelEnded:
		message = p.ModelEnded.GetMessage()
	}
	if message == nil {
		return m, false
	}
	if id := message.GetId(); id != "" {
		m.ID = id
	}
	m.Speaker = map[threadv1.Role]string{
		threadv1.Role_ROLE_USER: "user", threadv1.Role_ROLE_ASSISTANT: "assistant", threadv1.Role_ROLE_TOOL: "tool", threadv1.Role_ROLE_SYSTEM: "system",
	}[message.GetRole()]
	// Steering text is the user's own.
	m.Synthetic = message.GetOrigin() != "" && message.GetOrigin() != "steer" || m.Speaker == "system" || m.Speaker == ""
	var text []string
	for _, b := range message.GetBlocks() {
		if s := b.GetText(); s != "" {
			text = append(text, s)
		}
	}
	m.Text = strings.Join(text, "\n")
	return m, m.Text != ""
}
