// Package workspace serves gantry.workspace.v1.WorkspaceService: definitions, templates, projections and the care of buckets. Errors are typed errors of package errdefs; the server
// chain makes statuses of them.
package workspace

import (
	"context"

	"google.golang.org/grpc"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/definition"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/importer"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/filesystem"
	"github.com/gantry-agents/gantry/services/workspace/internal/templates"
)

// Domain of the reasons of this package.
const Domain = "gantry.workspace.v1"

// Server implements the service.
type Server struct {
	workspacev1.UnimplementedWorkspaceServiceServer

	callers     *caller.Resolver
	importer    *importer.Importer
	definitions *definition.Cache[*workspacev1.Definition]
}

var _ workspacev1.WorkspaceServiceServer = (*Server)(nil)

// New returns the server. It owns nothing. Workspaces are imported into the journal from below the directories of importDirs only.
func New(callers *caller.Resolver, threads journal.Store, importDirs []string) *Server {
	return &Server{callers: callers, importer: newImporter(callers, threads, importDirs), definitions: definition.NewCache(definitionOf)}
}

func fail(class error, reason, format string, args ...any) *errdefs.Error {
	return errdefs.New(class, Domain, reason, format, args...)
}

// GetDefinition implements the service.
func (s *Server) GetDefinition(ctx context.Context, req *workspacev1.GetDefinitionRequest) (*workspacev1.GetDefinitionResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.definitions.Get(ctx, c.Identity.Agent, c.View)
	if err != nil {
		return nil, err
	}
	if req.GetIfChangedFrom() != "" && req.GetIfChangedFrom() == d.GetFingerprint() {
		return &workspacev1.GetDefinitionResponse{Unchanged: true}, nil
	}
	// What is cached is shared: only the outermost message is of this call.
	return &workspacev1.GetDefinitionResponse{Definition: &workspacev1.Definition{
		Agent: c.Identity.Agent, HasTemplate: c.Template.Kind != templates.KindNone, Rules: d.GetRules(), Memory: d.GetMemory(), Knowledge: d.GetKnowledge(),
		Skills: d.GetSkills(), Subagents: d.GetSubagents(), Tools: d.GetTools(), AgentConfig: d.GetAgentConfig(), AgentConfigSource: d.GetAgentConfigSource(),
		Problems: d.GetProblems(), Fingerprint: d.GetFingerprint(),
	}}, nil
}

// GetUsage implements the service.
func (s *Server) GetUsage(ctx context.Context, _ *workspacev1.GetUsageRequest) (*workspacev1.GetUsageResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	used, limits, err := c.View.Usage(ctx)
	if err != nil {
		return nil, err
	}
	return &workspacev1.GetUsageResponse{Usage: filesystem.UsageOf(used, limits), Whiteouts: used.Whiteouts, Bucket: c.Bucket.Key()}, nil
}

// LocateBucket implements the service.
func (s *Server) LocateBucket(ctx context.Context, _ *workspacev1.LocateBucketRequest) (*workspacev1.LocateBucketResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	backend := s.callers.Store.Capabilities().Name
	dir, ok, err := s.callers.Store.Locate(c.View.Space())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fail(errdefs.ErrFailedPrecondition, "NO_PLAIN_FILES", "the backend %s keeps no plain files", backend).With("backend", backend)
	}
	return &workspacev1.LocateBucketResponse{Directory: dir, Backend: backend}, nil
}

// ForgetBucket implements the service. A grant that covers some paths only can't forget all.
func (s *Server) ForgetBucket(ctx context.Context, req *workspacev1.ForgetBucketRequest) (*workspacev1.ForgetBucketResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	if c.Grant.PathPrefixes != nil {
		return nil, fsops.ErrPathNotAllowed("", caller.VerbWrite)
	}
	call, err := c.Call("ForgetBucket", req)
	if err != nil {
		return nil, err
	}
	n, err := c.View.Forget(ctx, call)
	if err != nil {
		return nil, err
	}
	return &workspacev1.ForgetBucketResponse{Files: n}, nil
}

// FetchBlobs implements the service.
func (s *Server) FetchBlobs(req *workspacev1.FetchBlobsRequest, stream grpc.ServerStreamingServer[workspacev1.FetchBlobsResponse]) error {
	ctx := stream.Context()
	c, err := s.callers.Open(ctx)
	if err != nil {
		return err
	}
	end := &workspacev1.FetchBlobsEnd{}
	for _, want := range req.GetEntries() {
		sent, found, err := s.sendBlob(ctx, c, want, stream)
		if err != nil {
			return err
		}
		if found {
			end.Files++
			end.SentBytes += sent
			continue
		}
		end.Missing++
		if err := stream.Send(&workspacev1.FetchBlobsResponse{Part: &workspacev1.FetchBlobsResponse_Missing{Missing: want}}); err != nil {
			return err
		}
	}
	return stream.Send(&workspacev1.FetchBlobsResponse{Part: &workspacev1.FetchBlobsResponse_End{End: end}})
}

// sendBlob sends one file, if it still has the content that is wanted.
func (s *Server) sendBlob(
	ctx context.Context, c *caller.Caller, want *workspacev1.ManifestEntry, stream grpc.ServerStreamingServer[workspacev1.FetchBlobsResponse],
) (sent int64, found bool, err error) {
	p, err := fsops.ParseFilePath(want.GetPath())
	if err != nil {
		return 0, false, err
	}
	if err := c.MayRead(p); err != nil {
		return 0, false, err
	}
	e, err := c.View.Stat(ctx, p)
	if caller.IsNotFound(err) || err == nil && e.SHA256 != want.GetSha256() {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	now, content, err := c.View.Open(ctx, p)
	if caller.IsNotFound(err) || err == nil && now.Revision != e.Revision {
		if err == nil {
			content.Close()
		}
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer content.Close()
	if err := stream.Send(&workspacev1.FetchBlobsResponse{Part: &workspacev1.FetchBlobsResponse_Header{Header: entryOf(e)}}); err != nil {
		return 0, false, err
	}
	sent, err = filesystem.Send(ctx, content, 0, func(chunk []byte) error {
		return stream.Send(&workspacev1.FetchBlobsResponse{Part: &workspacev1.FetchBlobsResponse_Chunk{Chunk: chunk}})
	})
	return sent, true, err
}

func entryOf(e files.Entry) *workspacev1.ManifestEntry {
	path, _ := fsops.Text(e.Path.String())
	return &workspacev1.ManifestEntry{
		Path: path, Sha256: e.SHA256, SizeBytes: e.Size, Mode: e.Mode, Layer: filesystem.Layer(e.Layer), Revision: e.Revision,
	}
}
