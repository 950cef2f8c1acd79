package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// Get returns lines.
func (s *Server) Get(ctx context.Context, req *memoryv1.GetRequest) (*memoryv1.GetResponse, error) {
	r, err := s.memory.Get(ctx, memory.GetRequest{
		Path: req.GetPath(), Start: int(req.GetStartLine()), End: int(req.GetEndLine()), Facts: req.GetIncludeFacts(),
	})
	if err != nil {
		return nil, err
	}
	out := &memoryv1.GetResponse{Path: r.Path, TotalLines: int64(r.Total), More: r.More, Revision: r.Revision, Tokens: int32(r.Tokens)}
	for _, l := range r.Lines {
		line := &memoryv1.Line{Number: int64(l.Number), Text: l.Text}
		if l.Fact != nil {
			line.Fact = factOut(*l.Fact)
		}
		out.Lines = append(out.Lines, line)
	}
	return out, nil
}

const (
	defaultFiles, maxFiles       = 100, 1000
	defaultVersions, maxVersions = 20, 100
)

// ListFiles lists memory files.
func (s *Server) ListFiles(ctx context.Context, req *memoryv1.ListFilesRequest) (*memoryv1.ListFilesResponse, error) {
	after, err := pageAfter(req.GetPageToken(), "files")
	if err != nil {
		return nil, err
	}
	files, err := s.memory.ListFiles(ctx)
	if err != nil {
		return nil, err
	}
	out := &memoryv1.ListFilesResponse{}
	size := pageSize(req.GetPageSize(), defaultFiles, maxFiles)
	for _, f := range files {
		if f.Path <= after && after != "" {
			continue
		}
		if len(out.Files) == size {
			out.NextPageToken = fsops.PageToken(out.Files[size-1].GetPath(), "files")
			break
		}
		out.Files = append(out.Files, &memoryv1.MemoryFile{
			Path: f.Path, Kind: memoryv1.DocumentKind(memory.KindOf(f.Path)), SizeBytes: f.Size, Revision: f.Revision, ModifyTime: timestamppb.New(f.ModTime),
		})
	}
	return out, nil
}

// ListVersions lists the kept versions of MEMORY.md.
func (s *Server) ListVersions(ctx context.Context, req *memoryv1.ListVersionsRequest) (*memoryv1.ListVersionsResponse, error) {
	before, err := pageAfter(req.GetPageToken(), "versions")
	if err != nil {
		return nil, err
	}
	versions, err := s.memory.ListVersions(ctx)
	if err != nil {
		return nil, err
	}
	out := &memoryv1.ListVersionsResponse{}
	size := pageSize(req.GetPageSize(), defaultVersions, maxVersions)
	for _, v := range versions {
		if before != "" && v.ID >= before {
			continue
		}
		if len(out.Versions) == size {
			out.NextPageToken = fsops.PageToken(out.Versions[size-1].GetVersionId(), "versions")
			break
		}
		out.Versions = append(out.Versions, &memoryv1.Version{VersionId: v.ID, Time: timestamppb.New(v.Time), SizeBytes: v.File.Size, Path: v.File.Path})
	}
	return out, nil
}

// RestoreVersion makes a kept version current.
func (s *Server) RestoreVersion(ctx context.Context, req *memoryv1.RestoreVersionRequest) (*memoryv1.RestoreVersionResponse, error) {
	r, err := s.memory.RestoreVersion(ctx, req.GetVersionId(), req.GetIfRevision())
	if err != nil {
		return nil, err
	}
	return &memoryv1.RestoreVersionResponse{Revision: r.Revision, PreviousVersionId: r.Previous, Cursor: r.Cursor}, nil
}

func pageSize(asked int32, fallback, most int) int {
	if asked <= 0 {
		return fallback
	}
	return min(int(asked), most)
}

func pageAfter(token, list string) (string, error) {
	after, err := fsops.PageAfter(token, list)
	if err != nil {
		return "", memory.TokenInvalid("page_token")
	}
	return after, nil
}
