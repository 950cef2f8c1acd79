package filesystem

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	defaultRevisions, maxRevisions = 50, 500
	// maxDiffBytes bounds the text of a diff.
	maxDiffBytes = 1 << 20
)

// ListRevisions implements the service.
func (s *Server) ListRevisions(ctx context.Context, req *filesystemv1.ListRevisionsRequest) (*filesystemv1.ListRevisionsResponse, error) {
	view, p, err := s.history(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size <= 0 {
		size = defaultRevisions
	}
	page, err := view.Versions(ctx, p, min(size, maxRevisions), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &filesystemv1.ListRevisionsResponse{NextPageToken: page.Next}
	for _, v := range page.Versions {
		r := &filesystemv1.Revision{
			Revision: v.Entry.Revision, SizeBytes: v.Entry.Size, Sha256: v.Entry.SHA256, Author: v.Entry.Author, Layer: Layer(v.Entry.Layer), Deleted: v.Deleted,
		}
		if !v.Time.IsZero() {
			r.Time = timestamppb.New(v.Time)
		}
		out.Revisions = append(out.Revisions, r)
	}
	return out, nil
}

// history resolves a call that looks into the history of a file.
func (s *Server) history(ctx context.Context, text string) (*files.View, fsops.Path, error) {
	c, view, p, err := s.open(ctx, text, filesystemv1.Layer_LAYER_UNSPECIFIED)
	if err != nil {
		return nil, fsops.Path{}, err
	}
	return view, p, c.MayRead(p)
}

// RestoreRevision implements the service.
func (s *Server) RestoreRevision(ctx context.Context, req *filesystemv1.RestoreRevisionRequest) (*filesystemv1.RestoreRevisionResponse, error) {
	c, err := s.change(ctx, "RestoreRevision", req.GetPath(), filesystemv1.Layer_LAYER_BUCKET, req, fsops.ParseFilePath)
	if err != nil {
		return nil, err
	}
	out, err := c.target.View.Restore(ctx, c.call, c.path, req.GetRevision(), req.GetIfRevision())
	if err != nil {
		return nil, err
	}
	return &filesystemv1.RestoreRevisionResponse{Info: infoOf(out.Entry), Cursor: out.Cursor}, nil
}

// DiffRevisions implements the service.
func (s *Server) DiffRevisions(ctx context.Context, req *filesystemv1.DiffRevisionsRequest) (*filesystemv1.DiffRevisionsResponse, error) {
	view, p, err := s.history(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	out, err := view.Diff(ctx, p, req.GetFromRevision(), req.GetToRevision(), int(req.GetContextLines()), maxDiffBytes)
	if err != nil {
		return nil, err
	}
	return &filesystemv1.DiffRevisionsResponse{Diff: out.Text, Truncated: out.Truncated, Equal: out.Equal}, nil
}
