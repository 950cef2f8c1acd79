// Package memthread is a small ThreadService in memory, for tests of what reads journals. It has what readers need: Commit without fencing, Scan, Changes, Redact and Delete.
package memthread

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Service is the service.
type Service struct {
	threadv1.UnimplementedThreadServiceServer
	mu      sync.Mutex
	threads map[identity.Thread]*thread
	changes int64
}

type thread struct {
	events  []*threadv1.Event
	change  int64
	deleted bool
}

// New makes an empty service.
func New() *Service { return &Service{threads: map[identity.Thread]*thread{}} }

// Heartbeat keeps nothing: owners live for ever.
func (s *Service) Heartbeat(context.Context, *threadv1.HeartbeatRequest) (*threadv1.HeartbeatResponse, error) {
	return &threadv1.HeartbeatResponse{}, nil
}

// Acquire gives the thread to whoever asks.
func (s *Service) Acquire(ctx context.Context, _ *threadv1.AcquireRequest) (*threadv1.AcquireResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	return &threadv1.AcquireResponse{Head: head(key, 0)}, nil
}

// Commit appends events; the owner and the epoch are not looked at.
func (s *Service) Commit(ctx context.Context, req *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[key]
	if t == nil || t.deleted {
		t = &thread{}
		s.threads[key] = t
	}
	for _, e := range req.GetEvents() {
		e = proto.CloneOf(e)
		e.Seq, e.Time = int64(len(t.events))+1, timestamppb.New(time.Now())
		t.events = append(t.events, e)
	}
	s.changes++
	t.change = s.changes
	return &threadv1.CommitResponse{Seq: int64(len(t.events))}, nil
}

// Scan sends events.
func (s *Service) Scan(req *threadv1.ScanRequest, stream grpc.ServerStreamingServer[threadv1.ScanResponse]) error {
	key, err := identity.ThreadFromContext(stream.Context())
	if err != nil {
		return err
	}
	s.mu.Lock()
	t := s.threads[key]
	var events []*threadv1.Event
	if t != nil && !t.deleted {
		events = slices.Clone(t.events)
	}
	s.mu.Unlock()
	if events == nil {
		return errdefs.New(errdefs.ErrNotFound, "gantry.thread.v1", "THREAD_NOT_FOUND", "there is no such thread")
	}
	sent, more := int64(0), false
	for _, e := range events {
		if e.GetSeq() <= req.GetAfterSeq() || len(req.GetTypes()) > 0 && !slices.Contains(req.GetTypes(), e.GetType()) {
			continue
		}
		if sent++; req.GetLimit() > 0 && sent > req.GetLimit() {
			more = true
			break
		}
		if err := stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_Event{Event: e}}); err != nil {
			return err
		}
	}
	end := &threadv1.ScanEnd{Head: head(key, int64(len(events))), More: more}
	return stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_End{End: end}})
}

func head(key identity.Thread, seq int64) *threadv1.ThreadHead {
	return &threadv1.ThreadHead{Seq: seq, Thread: &commonv1.Thread{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session}}
}

// Changes lists threads by their last change.
func (s *Service) Changes(ctx context.Context, req *threadv1.ChangesRequest) (*threadv1.ChangesResponse, error) {
	who, _ := identity.FromContext(ctx)
	after, err := strconv.ParseInt("0"+req.GetCursor(), 10, 64)
	if err != nil {
		return nil, errdefs.New(errdefs.ErrOutOfRange, "gantry.thread.v1", "CURSOR_INVALID", "no such cursor")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []identity.Thread
	for key, t := range s.threads {
		if key.Tenant == who.Tenant && key.Agent == who.Agent && key.User == who.User && t.change > after {
			keys = append(keys, key)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return s.threads[keys[i]].change < s.threads[keys[j]].change })
	size := int(req.GetPageSize())
	if size <= 0 {
		size = 100
	}
	out := &threadv1.ChangesResponse{Cursor: req.GetCursor()}
	for i, key := range keys {
		if i == size {
			out.More = true
			break
		}
		t := s.threads[key]
		h := head(key, int64(len(t.events)))
		if t.deleted {
			out.Deleted = append(out.Deleted, h.GetThread())
		} else {
			out.Heads = append(out.Heads, h)
		}
		out.Cursor = fmt.Sprint(t.change)
	}
	return out, nil
}

// Redact removes payloads.
func (s *Service) Redact(ctx context.Context, req *threadv1.RedactRequest) (*threadv1.RedactResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[key]
	if t == nil {
		return nil, errdefs.New(errdefs.ErrNotFound, "gantry.thread.v1", "THREAD_NOT_FOUND", "there is no such thread")
	}
	for _, seq := range req.GetSeqs() {
		if seq >= 1 && seq <= int64(len(t.events)) {
			e := proto.CloneOf(t.events[seq-1])
			e.Payload, e.Redacted = nil, true
			t.events[seq-1] = e
		}
	}
	s.changes++
	t.change = s.changes
	return &threadv1.RedactResponse{Events: int32(len(req.GetSeqs()))}, nil
}

// Delete removes a thread.
func (s *Service) Delete(ctx context.Context, _ *threadv1.DeleteRequest) (*threadv1.DeleteResponse, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.threads[key]
	if t == nil || t.deleted {
		return &threadv1.DeleteResponse{}, nil
	}
	s.changes++
	t.events, t.deleted, t.change = nil, true, s.changes
	return &threadv1.DeleteResponse{Deleted: true}, nil
}
