package rpc

import (
	"context"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Acquire implements SandboxService.
func (s *Server) Acquire(ctx context.Context, req *pb.AcquireRequest) (*pb.AcquireResponse, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	if req.GetDedicated() {
		return nil, sandbox.Unimplemented("dedicated", "use the bucket's sandbox, or another session with scope session")
	}
	w, err := want(req.GetSpec())
	if err != nil {
		return nil, err
	}
	l, lease, created, err := s.m.Acquire(ctx, c.bucket, sandbox.AcquireOptions{
		Want: w, Exclusive: req.GetExclusive(), Wait: req.GetWait().AsDuration(), Duration: req.GetLeaseDuration().AsDuration(),
	})
	if err != nil {
		return nil, err
	}
	resp := &pb.AcquireResponse{Lease: toLease(lease), Created: created}
	if req.GetSpec().GetProject() {
		res, err := s.project(ctx, c, l, lease.Token, nil, false)
		if err != nil {
			_, _ = s.m.Release(c.bucket, l.Instance.Spec().ID, lease.ID)
			return nil, err
		}
		resp.Projection = toProjection(res)
	}
	resp.Sandbox = toSandbox(s.m.Status(l))
	return resp, nil
}

// project holds the sandbox while its projection changes.
func (s *Server) project(ctx context.Context, c caller, l *sandbox.Live, token int64, include []string, runtime bool) (sandbox.ProjectionResult, error) {
	l, release, err := s.hold(ctx, c, l, token)
	if err != nil {
		return sandbox.ProjectionResult{}, err
	}
	defer release()
	return s.m.Project(ctx, l, token, include, runtime)
}

// Renew implements SandboxService.
func (s *Server) Renew(ctx context.Context, req *pb.RenewRequest) (*pb.RenewResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	lease, err := s.m.Renew(c.bucket, c.sandbox, req.GetLeaseId(), req.GetLeaseDuration().AsDuration())
	if err != nil {
		return nil, err
	}
	return &pb.RenewResponse{Lease: toLease(lease)}, nil
}

// Release implements SandboxService.
func (s *Server) Release(ctx context.Context, req *pb.ReleaseRequest) (*pb.ReleaseResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	left, err := s.m.Release(c.bucket, c.sandbox, req.GetLeaseId())
	if err != nil {
		return nil, err
	}
	return &pb.ReleaseResponse{Holders: int32(left)}, nil
}

// Project implements SandboxService.
func (s *Server) Project(ctx context.Context, req *pb.ProjectRequest) (*pb.ProjectResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	l, release, err := s.m.Use(ctx, c.bucket, c.sandbox, req.GetFencingToken(), sandbox.Want{})
	if err != nil {
		return nil, err
	}
	defer release()
	res, err := s.m.Project(ctx, l, req.GetFencingToken(), req.GetInclude(), req.GetIncludeRuntime())
	if err != nil {
		return nil, err
	}
	return &pb.ProjectResponse{Projection: toProjection(res)}, nil
}
