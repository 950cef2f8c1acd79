package thread

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Heartbeat implements the RPC.
func (s *Server) Heartbeat(ctx context.Context, r *threadv1.HeartbeatRequest) (*threadv1.HeartbeatResponse, error) {
	life, err := s.store.Heartbeat(ctx, ownerOf(r.GetOwner()), r.GetLeaving())
	if err != nil {
		return nil, err
	}
	return &threadv1.HeartbeatResponse{Life: durationpb.New(life)}, nil
}

// Acquire implements the RPC.
func (s *Server) Acquire(ctx context.Context, r *threadv1.AcquireRequest) (*threadv1.AcquireResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	claim, err := s.store.Acquire(ctx, t, ownerOf(r.GetOwner()), r.GetFence())
	if err != nil {
		return nil, err
	}
	return claimProto(claim), nil
}

// Commit implements the RPC.
func (s *Server) Commit(ctx context.Context, r *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	b, err := batchOf(r)
	if err != nil {
		return nil, err
	}
	out, err := s.store.Commit(ctx, t, b)
	if err != nil {
		return nil, err
	}
	return &threadv1.CommitResponse{Seq: out.Seq, CommitTime: timestamppb.New(out.Time), Mail: mailProtos(out.Mail)}, nil
}

// Post implements the RPC.
func (s *Server) Post(ctx context.Context, r *threadv1.PostRequest) (*threadv1.PostResponse, error) {
	t, err := target(ctx, r.GetThread())
	if err != nil {
		return nil, err
	}
	m, err := mailOf(r.GetMail())
	if err != nil {
		return nil, err
	}
	head, duplicate, err := s.store.Post(ctx, t, m)
	if err != nil {
		return nil, err
	}
	return &threadv1.PostResponse{Head: headProto(head), Duplicate: duplicate}, nil
}

// Release implements the RPC.
func (s *Server) Release(ctx context.Context, r *threadv1.ReleaseRequest) (*threadv1.ReleaseResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.store.Release(ctx, t, r.GetOwnerId(), r.GetEpoch()); err != nil {
		return nil, err
	}
	return &threadv1.ReleaseResponse{}, nil
}

// ClaimExpired implements the RPC. A caller that states no schema knows the first.
func (s *Server) ClaimExpired(ctx context.Context, r *threadv1.ClaimExpiredRequest) (*threadv1.ClaimExpiredResponse, error) {
	most, err := wait(r.GetMaxWait(), claimWait, journal.MaxClaimWait)
	if err != nil {
		return nil, err
	}
	poll, stopped, done := waiting(ctx)
	defer done()
	claims, err := s.store.ClaimExpired(poll, journal.ClaimRequest{
		Owner: ownerOf(r.GetOwner()), Max: or(r.GetMaxThreads(), 1), MaxSchema: max(1, r.GetMaxSchema()), MaxWait: most,
	})
	if stopped(err) {
		return &threadv1.ClaimExpiredResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := &threadv1.ClaimExpiredResponse{}
	for _, c := range claims {
		out.Claims = append(out.Claims, claimProto(c))
	}
	return out, nil
}

// PutBlob implements the RPC.
func (s *Server) PutBlob(ctx context.Context, r *threadv1.PutBlobRequest) (*threadv1.PutBlobResponse, error) {
	u, err := user(ctx)
	if err != nil {
		return nil, err
	}
	sum, err := s.store.PutBlob(ctx, u.Tenant, r.GetData())
	if err != nil {
		return nil, err
	}
	return &threadv1.PutBlobResponse{Sha256: sum.String()}, nil
}

// Redact implements the RPC.
func (s *Server) Redact(ctx context.Context, r *threadv1.RedactRequest) (*threadv1.RedactResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.store.Redact(ctx, t, r.GetSeqs(), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &threadv1.RedactResponse{Events: int32(out.Events), Blobs: int32(out.Blobs)}, nil
}

// Fork implements the RPC.
func (s *Server) Fork(ctx context.Context, r *threadv1.ForkRequest) (*threadv1.ForkResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.store.Fork(ctx, t, r.GetAtSeq(), r.GetToSession())
	if err != nil {
		return nil, err
	}
	return &threadv1.ForkResponse{Head: headProto(head)}, nil
}

// Delete implements the RPC.
func (s *Server) Delete(ctx context.Context, _ *threadv1.DeleteRequest) (*threadv1.DeleteResponse, error) {
	t, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	existed, err := s.store.Delete(ctx, t)
	if err != nil {
		return nil, err
	}
	return &threadv1.DeleteResponse{Deleted: existed}, nil
}
