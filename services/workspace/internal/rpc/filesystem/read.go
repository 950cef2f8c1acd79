package filesystem

import (
	"context"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
)

// chunkBytes is the size of the chunks of a download.
const chunkBytes = 256 << 10

// open resolves caller, path and layer of a reading call.
func (s *Server) open(ctx context.Context, text string, layer filesystemv1.Layer) (*caller.Caller, *files.View, fsops.Path, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, nil, fsops.Path{}, err
	}
	p, err := fsops.ParsePath(text)
	if err != nil {
		return nil, nil, fsops.Path{}, err
	}
	l, err := layerOf(layer)
	if err != nil {
		return nil, nil, fsops.Path{}, err
	}
	return c, c.View.Only(l), p, nil
}

// Stat implements the service.
func (s *Server) Stat(ctx context.Context, req *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
	c, view, p, err := s.open(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return nil, err
	}
	if err := c.MayList(p); err != nil {
		return nil, err
	}
	e, err := view.Stat(ctx, p)
	if err != nil {
		return nil, err
	}
	if e.Kind == files.KindFile {
		if err := c.MayRead(p); err != nil {
			return nil, err
		}
	}
	return &filesystemv1.StatResponse{Info: infoOf(e)}, nil
}

// List implements the service.
func (s *Server) List(ctx context.Context, req *filesystemv1.ListRequest) (*filesystemv1.ListResponse, error) {
	c, view, p, err := s.open(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return nil, err
	}
	if err := c.MayList(p); err != nil {
		return nil, err
	}
	page, err := view.ListOf(ctx, p, req.GetRecursive(), fsops.PageSize(req.GetPageSize()), req.GetPageToken(), func(e files.Entry) bool { return c.Shows(e.Path) })
	if err != nil {
		return nil, err
	}
	return &filesystemv1.ListResponse{Entries: infosOf(page.Entries), NextPageToken: page.Next, Warnings: page.Warnings}, nil
}

// openFile resolves a call that reads a file, and opens it.
func (s *Server) openFile(ctx context.Context, text string, layer filesystemv1.Layer, revision string) (files.Entry, files.Content, error) {
	c, view, p, err := s.open(ctx, text, layer)
	if err != nil {
		return files.Entry{}, nil, err
	}
	if err := c.MayRead(p); err != nil {
		return files.Entry{}, nil, err
	}
	return view.OpenRevision(ctx, p, revision)
}

// Read implements the service.
func (s *Server) Read(ctx context.Context, req *filesystemv1.ReadRequest) (*filesystemv1.ReadResponse, error) {
	e, content, err := s.openFile(ctx, req.GetPath(), req.GetLayer(), req.GetRevision())
	if err != nil {
		return nil, err
	}
	defer content.Close()
	window := fsops.WindowRequest{
		OffsetLines: req.GetOffsetLines(), OffsetBytes: req.GetOffsetBytes(), LimitLines: req.GetLimitLines(), LimitBytes: req.GetLimitBytes(),
	}
	out := &filesystemv1.ReadResponse{Info: infoOf(e)}
	var w fsops.Window
	if req.GetMode() == filesystemv1.ReadMode_READ_MODE_BYTES {
		w, err = fsops.ReadBytes(ctx, content, window)
		out.Data = w.Data
	} else {
		w, err = fsops.ReadText(ctx, content, window)
		out.Text, out.Replaced = w.Text()
	}
	if err != nil {
		return nil, err
	}
	out.StartLine, out.LineCount, out.StartByte, out.NextOffsetBytes = w.StartLine, w.LineCount, w.StartByte, w.NextByte
	out.NextOffsetLines, out.More, out.PartialLine, out.Binary, out.TotalLines = w.NextLine, w.More, w.PartialLine, w.Binary, w.TotalLines
	return out, nil
}

// Download implements the service.
func (s *Server) Download(req *filesystemv1.DownloadRequest, stream grpc.ServerStreamingServer[filesystemv1.DownloadResponse]) error {
	ctx := stream.Context()
	e, content, err := s.openFile(ctx, req.GetPath(), req.GetLayer(), req.GetRevision())
	if err != nil {
		return err
	}
	defer content.Close()
	if err := stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_Header{Header: infoOf(e)}}); err != nil {
		return err
	}
	sent, err := Send(ctx, content, req.GetOffsetBytes(), func(chunk []byte) error {
		return stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_Chunk{Chunk: chunk}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_End{End: &filesystemv1.DownloadEnd{SentBytes: sent}}})
}

// Send passes content from a byte position on to send in chunks of at most 256 KiB, and returns how many bytes that were.
func Send(ctx context.Context, content files.Content, offset int64, send func(chunk []byte) error) (int64, error) {
	var sent int64
	for pos := min(offset, content.Size()); pos < content.Size(); {
		if err := ctx.Err(); err != nil {
			return sent, err
		}
		// Each chunk has bytes of its own: gRPC may still be sending the one before.
		chunk := make([]byte, min(chunkBytes, content.Size()-pos))
		n, err := content.ReadAt(chunk, pos)
		if n < len(chunk) {
			return sent, err
		}
		if err := send(chunk); err != nil {
			return sent, err
		}
		pos += int64(n)
		sent += int64(n)
	}
	return sent, nil
}
