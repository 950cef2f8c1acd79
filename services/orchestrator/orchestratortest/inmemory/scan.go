package inmemory

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func (s *Threads) Scan(req *threadv1.ScanRequest, stream grpc.ServerStreamingServer[threadv1.ScanResponse]) error {
	s.mu.Lock()
	t, err := s.find(stream.Context())
	if err != nil {
		s.mu.Unlock()
		return err
	}
	events, head, after := slices.Clone(t.events), s.headOf(t), req.GetAfterSeq()
	s.mu.Unlock()
	if req.GetFromCheckpoint() && head.GetCheckpointSeq() > 0 && head.GetCheckpointSeq() >= after {
		after = head.GetCheckpointSeq() - 1
	}
	if after > int64(len(events)) {
		return errdefs.New(errdefs.ErrOutOfRange, threadDomain, "CURSOR_INVALID", "after %d, the head is %d", after, len(events))
	}
	sent := int64(0)
	for _, ev := range events[after:] {
		if len(req.GetTypes()) > 0 && !slices.Contains(req.GetTypes(), ev.GetType()) {
			continue
		}
		if req.GetLimit() > 0 && sent == req.GetLimit() {
			return stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_End{End: &threadv1.ScanEnd{Head: head, More: true}}})
		}
		sent++
		s.scanned.Add(1)
		if err := stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_Event{Event: proto.CloneOf(ev)}}); err != nil {
			return err
		}
	}
	return stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_End{End: &threadv1.ScanEnd{Head: head}}})
}

func (s *Threads) Follow(req *threadv1.FollowRequest, stream grpc.ServerStreamingServer[threadv1.FollowResponse]) error {
	ctx := stream.Context()
	after, caughtUp := req.GetAfterSeq(), false
	wait := 10 * time.Minute
	if req.GetMaxWait() != nil {
		wait = req.GetMaxWait().AsDuration()
	}
	for {
		s.mu.Lock()
		t, err := s.find(ctx)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		var events []*threadv1.Event
		if after < int64(len(t.events)) {
			events = slices.Clone(t.events[after:])
		}
		head, changed := s.headOf(t), s.changed
		s.mu.Unlock()
		for _, ev := range events {
			if err := stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_Event{Event: proto.CloneOf(ev)}}); err != nil {
				return err
			}
			after = ev.GetSeq()
		}
		if !caughtUp {
			caughtUp = true
			if err := stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_CaughtUp{CaughtUp: &threadv1.FollowCaughtUp{Head: head}}}); err != nil {
				return err
			}
		}
		if !await(ctx, changed, wait) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_End{End: &threadv1.FollowEnd{AfterSeq: after}}})
		}
	}
}

// await waits for a change; false when the time or the context ended.
func await(ctx context.Context, changed <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}
