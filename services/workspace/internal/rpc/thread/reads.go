package thread

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Scan implements the RPC.
func (s *Server) Scan(r *threadv1.ScanRequest, stream grpc.ServerStreamingServer[threadv1.ScanResponse]) error {
	ctx := stream.Context()
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return err
	}
	after := r.GetAfterSeq()
	if r.GetFromCheckpoint() {
		head, err := s.store.Head(ctx, t)
		if err != nil {
			return err
		}
		if head.CheckpointSeq > 0 && head.CheckpointSeq >= after {
			after = head.CheckpointSeq - 1
		}
	}
	head, more, err := journal.Scan(ctx, s.store, t, after, r.GetLimit(), r.GetTypes(), func(e journal.Event) error {
		event, err := eventProto(&e)
		if err != nil {
			return err
		}
		return stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_Event{Event: event}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&threadv1.ScanResponse{Item: &threadv1.ScanResponse_End{End: &threadv1.ScanEnd{Head: headProto(head), More: more}}})
}

// Follow implements the RPC.
func (s *Server) Follow(r *threadv1.FollowRequest, stream grpc.ServerStreamingServer[threadv1.FollowResponse]) error {
	t, err := identity.ThreadFromContext(stream.Context())
	if err != nil {
		return err
	}
	most, err := wait(r.GetMaxWait(), followWait, maxFollowWait)
	if err != nil {
		return err
	}
	ctx, stopped, done := waiting(stream.Context())
	defer done()
	last, err := journal.Follow(ctx, s.store, t, r.GetAfterSeq(), most, follower{stream})
	if err != nil && !stopped(err) {
		return err
	}
	return stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_End{End: &threadv1.FollowEnd{AfterSeq: last}}})
}

// follower sends what [journal.Follow] finds.
type follower struct {
	stream grpc.ServerStreamingServer[threadv1.FollowResponse]
}

func (f follower) Event(e journal.Event) error {
	event, err := eventProto(&e)
	if err != nil {
		return err
	}
	return f.stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_Event{Event: event}})
}

func (f follower) CaughtUp(h journal.Head) error {
	return f.stream.Send(&threadv1.FollowResponse{Item: &threadv1.FollowResponse_CaughtUp{CaughtUp: &threadv1.FollowCaughtUp{Head: headProto(h)}}})
}

// Changes implements the RPC.
func (s *Server) Changes(ctx context.Context, r *threadv1.ChangesRequest) (*threadv1.ChangesResponse, error) {
	u, err := user(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.store.Changes(ctx, u, r.GetCursor(), or(r.GetPageSize(), changesSize))
	if err != nil {
		return nil, err
	}
	mine := ownSession(ctx)
	out := &threadv1.ChangesResponse{Cursor: c.Cursor, More: c.More}
	for _, h := range c.Heads {
		if mine(h.Thread) {
			out.Heads = append(out.Heads, headProto(h))
		}
	}
	for _, t := range c.Deleted {
		if mine(t) {
			out.Deleted = append(out.Deleted, threadProto(t))
		}
	}
	return out, nil
}

// ownSession says which threads of a user the caller may be told of. Sessions of anonymous callers act as secrets: each knows its own only.
func ownSession(ctx context.Context) func(identity.Thread) bool {
	id, _ := identity.FromContext(ctx)
	return func(t identity.Thread) bool { return t.User != "" || t.Session == id.Session }
}

// Head implements the RPC.
func (s *Server) Head(ctx context.Context, _ *threadv1.HeadRequest) (*threadv1.HeadResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.store.Head(ctx, t)
	if err != nil {
		return nil, err
	}
	return &threadv1.HeadResponse{Head: headProto(head)}, nil
}

// List implements the RPC.
func (s *Server) List(ctx context.Context, r *threadv1.ListRequest) (*threadv1.ListResponse, error) {
	u, err := user(ctx)
	if err != nil {
		return nil, err
	}
	if u.User == "" {
		return s.listOwn(ctx)
	}
	heads, next, err := s.store.List(ctx, u, or(r.GetPageSize(), listSize), r.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &threadv1.ListResponse{Heads: headProtos(heads), NextPageToken: next}, nil
}

// listOwn lists the one thread that an anonymous caller knows.
func (s *Server) listOwn(ctx context.Context) (*threadv1.ListResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.store.Head(ctx, t)
	if errors.Is(err, errdefs.ErrNotFound) {
		return &threadv1.ListResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &threadv1.ListResponse{Heads: headProtos([]journal.Head{head})}, nil
}

// ListMail implements the RPC.
func (s *Server) ListMail(ctx context.Context, r *threadv1.ListMailRequest) (*threadv1.ListMailResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	mail, err := s.store.ListMail(ctx, t, or(r.GetLimit(), mailLimit), r.GetIncludeFuture())
	if err != nil {
		return nil, err
	}
	return &threadv1.ListMailResponse{Mail: mailProtos(mail)}, nil
}

// GetBlob implements the RPC.
func (s *Server) GetBlob(ctx context.Context, r *threadv1.GetBlobRequest) (*threadv1.GetBlobResponse, error) {
	u, err := user(ctx)
	if err != nil {
		return nil, err
	}
	sum, ok := journal.ParseSum(r.GetSha256())
	if !ok {
		return nil, errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "sha256 is not 64 lower-case hex digits")
	}
	data, err := s.store.GetBlob(ctx, u.Tenant, sum)
	if err != nil {
		return nil, err
	}
	return &threadv1.GetBlobResponse{Data: data}, nil
}
