package inmemory

import (
	"context"

	"google.golang.org/protobuf/proto"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

const checkpointType = "checkpoint/written"

// Redact makes tombstones of the events and of the checkpoints after them, in this thread alone.
func (s *Threads) Redact(ctx context.Context, req *threadv1.RedactRequest) (*threadv1.RedactResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	resp, first := &threadv1.RedactResponse{}, int64(len(t.events))
	for _, seq := range req.GetSeqs() {
		if seq < 1 || seq > int64(len(t.events)) {
			return nil, errdefs.New(errdefs.ErrOutOfRange, threadDomain, "CURSOR_INVALID", "event %d, the head is %d", seq, len(t.events))
		}
		first = min(first, seq)
	}
	for i, ev := range t.events {
		gone := ev.GetSeq() > first && ev.GetType() == checkpointType
		for _, seq := range req.GetSeqs() {
			gone = gone || ev.GetSeq() == seq
		}
		if !gone || ev.GetRedacted() {
			continue
		}
		delete(s.blobs, ev.GetPayload().GetCheckpointWritten().GetBlobSha256())
		t.events[i] = proto.CloneOf(ev) // readers hold the other
		bury(t.events[i])
		resp.Events++
	}
	t.redacted, t.head.CheckpointSeq = t.head.GetEpoch(), lastCheckpoint(t.events)
	return resp, nil
}

func bury(ev *threadv1.Event) { ev.Payload, ev.Redacted = nil, true }

// lastCheckpoint is the last one that was not redacted. 0: none.
func lastCheckpoint(events []*threadv1.Event) int64 {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].GetType() == checkpointType && !events[i].GetRedacted() {
			return events[i].GetSeq()
		}
	}
	return 0
}
