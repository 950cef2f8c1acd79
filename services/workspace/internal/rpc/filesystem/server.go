// Package filesystem serves gantry.filesystem.v1.FilesystemService on the buckets of a store: it reads requests, enforces what the caller's grant allows on paths, and converts. What
// the operations mean is in packages files and fsops. Errors are typed errors of package errdefs; the server chain makes statuses of them.
package filesystem

import (
	"context"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
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
		Layers: true, History: true, ChangeSets: true, DurableWatch: true, Effects: true,
		RevisionsGuardAllWriters: have.GuardsAllWriters, Backend: have.Name, ArbitraryNames: have.ArbitraryNames,
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
