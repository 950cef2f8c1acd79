package filesystem

import (
	"context"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	grepTime    = 30 * time.Second
	maxGrepTime = 120 * time.Second
	maxMatches  = 10_000
)

// Glob implements the service.
func (s *Server) Glob(ctx context.Context, req *filesystemv1.GlobRequest) (*filesystemv1.GlobResponse, error) {
	c, view, p, err := s.open(ctx, req.GetPath(), filesystemv1.Layer_LAYER_UNSPECIFIED)
	if err != nil {
		return nil, err
	}
	if err := c.MayList(p); err != nil {
		return nil, err
	}
	pattern, err := fsops.CompileGlob(req.GetPattern())
	if err != nil {
		return nil, err
	}
	page, err := view.Glob(ctx, files.Glob{
		Pattern: pattern, Text: req.GetPattern(), Dir: p, Ignored: req.GetIncludeIgnored(), Directories: req.GetIncludeDirectories(), Allowed: c.Allowed(),
	}, fsops.PageSize(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	return &filesystemv1.GlobResponse{Entries: infosOf(page.Entries), NextPageToken: page.Next, Warnings: page.Warnings}, nil
}

// Grep implements the service.
func (s *Server) Grep(req *filesystemv1.GrepRequest, stream grpc.ServerStreamingServer[filesystemv1.GrepResponse]) error {
	ctx := stream.Context()
	c, view, p, err := s.open(ctx, req.GetPath(), filesystemv1.Layer_LAYER_UNSPECIFIED)
	if err != nil {
		return err
	}
	if err := c.MayList(p); err != nil {
		return err
	}
	g := files.Grep{Path: p, Ignored: req.GetIncludeIgnored(), Allowed: c.Allowed(), MaxTime: grepTime}
	if g.Search, err = fsops.CompileGrep(fsops.GrepRequest{
		Pattern: req.GetPattern(), Regex: req.GetRegex(), IgnoreCase: req.GetIgnoreCase(),
		Before: int(req.GetContextBefore()), After: int(req.GetContextAfter()),
	}); err != nil {
		return err
	}
	if req.GetGlob() != "" {
		if g.Glob, err = fsops.CompileGlob(req.GetGlob()); err != nil {
			return err
		}
	}
	if req.GetMaxTime() != nil {
		g.MaxTime = min(req.GetMaxTime().AsDuration(), maxGrepTime)
	}
	g.MaxMatches = bounded(req.GetMaxMatches(), fsops.DefaultMaxMatches)
	g.MaxPerFile = bounded(req.GetMaxMatchesPerFile(), g.MaxMatches)
	end, err := view.Grep(ctx, g, func(h files.Hit) error {
		return stream.Send(&filesystemv1.GrepResponse{Result: &filesystemv1.GrepResponse_Match{Match: matchOf(h)}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&filesystemv1.GrepResponse{Result: &filesystemv1.GrepResponse_End{End: &filesystemv1.GrepEnd{
		Matches: end.Matches, Files: end.Files, BinaryFiles: end.BinaryFiles, Truncated: end.Reason != "", Reason: end.Reason, Warnings: end.Warnings,
	}}})
}

func bounded(asked int32, standard int) int {
	if asked <= 0 {
		return standard
	}
	return min(int(asked), maxMatches)
}

func matchOf(h files.Hit) *filesystemv1.Match {
	path, _ := pathText(h.Path)
	return &filesystemv1.Match{
		Path: path, Line: h.Line, Column: h.Column, LengthBytes: int64(h.Length), Text: h.Text, TextTruncated: h.TextTruncated,
		Before: h.Before, After: h.After, Layer: Layer(h.Layer),
	}
}
