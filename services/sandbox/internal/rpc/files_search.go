package rpc

import (
	"context"
	"io/fs"
	"time"

	"google.golang.org/grpc"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const (
	defaultGrepTime = 30 * time.Second
	mostGrepMatches = 10_000
)

// Glob implements FilesystemService.
func (f *Files) Glob(ctx context.Context, req *fspb.GlobRequest) (*fspb.GlobResponse, error) {
	p, err := parse(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	g, err := fsops.CompileGlob(req.GetPattern())
	if err != nil {
		return nil, err
	}
	kind := []string{"glob", p.Key(), req.GetPattern()}
	after, err := fsops.PageAfter(req.GetPageToken(), kind...)
	if err != nil {
		return nil, err
	}
	in, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	defer in.close()
	name, err := in.locate(ctx, p)
	if err != nil {
		return nil, err
	}
	w := below(in, fsops.PathOf(name), g)
	w.all, w.directories = req.GetIncludeIgnored(), req.GetIncludeDirectories()
	if err := w.walk(ctx, fsops.PathOf(name)); err != nil {
		return nil, err
	}
	resp := &fspb.GlobResponse{Warnings: w.warnings}
	resp.Entries, resp.NextPageToken = page(w.found, after, fsops.PageSize(req.GetPageSize()), kind)
	return resp, nil
}

// below is a walker for a pattern that is relative to a directory.
func below(in *inside, dir fsops.Path, g *fsops.Glob) walker {
	return walker{
		in: in, recursive: true,
		match: func(p fsops.Path) bool { return g.Match(p.Rebase(dir, fsops.Path{})) },
		prune: func(p fsops.Path) bool { return !g.MayMatchBelow(p.Rebase(dir, fsops.Path{})) },
	}
}

// Grep implements FilesystemService.
func (f *Files) Grep(req *fspb.GrepRequest, stream grpc.ServerStreamingServer[fspb.GrepResponse]) error {
	ctx := stream.Context()
	p, err := parse(ctx, req.GetPath())
	if err != nil {
		return err
	}
	g, err := fsops.CompileGrep(fsops.GrepRequest{
		Pattern: req.GetPattern(), Regex: req.GetRegex(), IgnoreCase: req.GetIgnoreCase(), Before: int(req.GetContextBefore()), After: int(req.GetContextAfter()),
	})
	if err != nil {
		return err
	}
	glob := req.GetGlob()
	if glob == "" {
		glob = "**"
	}
	only, err := fsops.CompileGlob(glob)
	if err != nil {
		return err
	}
	in, err := f.look(ctx)
	if err != nil {
		return err
	}
	defer in.close()
	name, err := in.locate(ctx, p)
	if err != nil {
		return err
	}
	limit := defaultGrepTime
	if req.GetMaxTime() != nil {
		limit = req.GetMaxTime().AsDuration()
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := &search{in: in, grep: g, stream: stream, end: &fspb.GrepEnd{}, most: int64(req.GetMaxMatches()), perFile: int64(req.GetMaxMatchesPerFile())}
	if s.most <= 0 {
		s.most = fsops.DefaultMaxMatches
	}
	s.most = min(s.most, mostGrepMatches)
	w := below(in, fsops.PathOf(name), only)
	w.all = req.GetIncludeIgnored()
	if req.GetGlob() == "" {
		w.match, w.prune = nil, nil // hidden files are searched unless a glob says otherwise
	}
	err = s.run(timed, &w, name)
	s.end.Warnings = append(s.end.Warnings, w.warnings...)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() != nil:
		s.end.Truncated, s.end.Reason = true, "max_time"
	default:
		return err
	}
	return stream.Send(&fspb.GrepResponse{Result: &fspb.GrepResponse_End{End: s.end}})
}

// search is one grep.
type search struct {
	in      *inside
	grep    *fsops.Grep
	stream  grpc.ServerStreamingServer[fspb.GrepResponse]
	end     *fspb.GrepEnd
	most    int64
	perFile int64
}

func (s *search) run(ctx context.Context, w *walker, name string) error {
	e, err := s.in.Tree.Stat(ctx, name)
	if err != nil {
		return err
	}
	if e.Kind == fs.ModeDir {
		if err := w.walk(ctx, fsops.PathOf(name)); err != nil {
			return err
		}
	} else {
		w.found = []sandbox.Entry{e}
	}
	for _, e := range w.found {
		if s.end.Truncated {
			return nil
		}
		if err := s.file(ctx, w, e); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) file(ctx context.Context, w *walker, e sandbox.Entry) error {
	f, err := s.in.Tree.Open(ctx, e.Path)
	if err != nil {
		w.warn(e.Path, err)
		return ctx.Err()
	}
	defer f.Close()
	s.end.Files++
	var here int64
	path, _ := fsops.Text(e.Path)
	res, err := s.grep.Search(ctx, f, func(h fsops.Hit) error {
		if s.end.Matches == s.most {
			s.end.Truncated, s.end.Reason = true, "max_matches"
			return fsops.ErrStop
		}
		if s.perFile > 0 && here == s.perFile {
			s.end.Reason = "some files have more matches than were asked for"
			return fsops.ErrStop
		}
		here++
		s.end.Matches++
		return s.stream.Send(&fspb.GrepResponse{Result: &fspb.GrepResponse_Match{Match: &fspb.Match{
			Path: path, Line: h.Line, Column: h.Column, LengthBytes: h.Length, Text: h.Text, TextTruncated: h.TextTruncated,
			Before: h.Before, After: h.After, Layer: fspb.Layer_LAYER_SANDBOX,
		}}})
	})
	if res.Binary {
		s.end.BinaryFiles++
	}
	return err
}
