// Package filesystem serves gantry.filesystem.v1.FilesystemService on the buckets of a store: it reads requests, enforces what the caller's grant allows on paths, and converts. What
// the operations mean is in packages files and fsops. Errors are typed errors of package errdefs; the server chain makes statuses of them.
package filesystem

import (
	"context"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
)

// Server implements the service.
type Server struct {
	filesystemv1.UnimplementedFilesystemServiceServer

	callers *caller.Resolver
}

var _ filesystemv1.FilesystemServiceServer = (*Server)(nil)

// New returns the server. It owns nothing.
func New(callers *caller.Resolver) *Server { return &Server{callers: callers} }

// GetCapabilities implements the service.
func (s *Server) GetCapabilities(ctx context.Context, _ *filesystemv1.GetCapabilitiesRequest) (*filesystemv1.GetCapabilitiesResponse, error) {
	if _, err := s.callers.Open(ctx); err != nil {
		return nil, err
	}
	have := s.callers.Store.Capabilities()
	return &filesystemv1.GetCapabilitiesResponse{
		Layers: true, DurableWatch: true, Effects: true, RevisionsGuardAllWriters: have.GuardsAllWriters, Backend: have.Name, ArbitraryNames: have.ArbitraryNames,
	}, nil
}

// GetUsage implements the service.
func (s *Server) GetUsage(ctx context.Context, _ *filesystemv1.GetUsageRequest) (*filesystemv1.GetUsageResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	used, limits, err := c.View.Usage(ctx)
	if err != nil {
		return nil, err
	}
	return &filesystemv1.GetUsageResponse{Usage: UsageOf(used, limits)}, nil
}

// ListRevisions implements the service: history is not offered.
func (s *Server) ListRevisions(context.Context, *filesystemv1.ListRevisionsRequest) (*filesystemv1.ListRevisionsResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// RestoreRevision implements the service: history is not offered.
func (s *Server) RestoreRevision(context.Context, *filesystemv1.RestoreRevisionRequest) (*filesystemv1.RestoreRevisionResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// DiffRevisions implements the service: history is not offered.
func (s *Server) DiffRevisions(context.Context, *filesystemv1.DiffRevisionsRequest) (*filesystemv1.DiffRevisionsResponse, error) {
	return nil, fsops.ErrCapabilityMissing("history")
}

// ApplyChanges implements the service: change sets are not offered.
func (s *Server) ApplyChanges(context.Context, *filesystemv1.ApplyChangesRequest) (*filesystemv1.ApplyChangesResponse, error) {
	return nil, fsops.ErrCapabilityMissing("change_sets")
}
