package workspace

import (
	"context"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/importer"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
)

func newImporter(callers *caller.Resolver, threads journal.Store, dirs []string) *importer.Importer {
	return &importer.Importer{
		Dirs: dirs, Store: callers.Store, Journal: threads, Encode: events{}, MaxFileBytes: callers.Limits.FileBytes,
		Open: func(ctx context.Context, bucket identity.Bucket) (importer.Target, error) {
			view, template, err := callers.View(ctx, bucket, bucket.Agent)
			if err != nil {
				return importer.Target{}, err
			}
			return importer.Target{View: view, Template: template.Directory, Taken: template.Taken, Mounted: callers.IsTemplate(files.BucketSpace(bucket))}, nil
		},
	}
}

// ImportWorkspace implements the service. The tenant is the caller's.
func (s *Server) ImportWorkspace(ctx context.Context, req *workspacev1.ImportWorkspaceRequest) (*workspacev1.ImportWorkspaceResponse, error) {
	c, err := s.callers.OpenTenant(ctx)
	if err != nil {
		return nil, err
	}
	if err := identity.ValidateID("agent", req.GetAgent()); err != nil {
		return nil, err
	}
	got, err := s.importer.Import(ctx, importer.Request{
		Directory: req.GetDirectory(), Tenant: c.Identity.Tenant, Agent: req.GetAgent(), Author: c.Identity.User, DryRun: req.GetDryRun(),
	})
	if err != nil {
		return nil, err
	}
	return &workspacev1.ImportWorkspaceResponse{
		Files: got.Files, Threads: got.Threads, LeftOut: got.LeftOut, UnchangedFiles: got.UnchangedFiles, UnchangedThreads: got.UnchangedThreads,
		LeftOutCount: got.LeftOutCount, More: got.More,
	}, nil
}
