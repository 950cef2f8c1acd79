package rpc

import (
	"context"
	"io"
	"io/fs"

	"google.golang.org/grpc"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// chunkBytes is how much of a file one message of a download holds.
const chunkBytes = 256 << 10

// Read implements FilesystemService.
func (f *Files) Read(ctx context.Context, req *fspb.ReadRequest) (*fspb.ReadResponse, error) {
	if req.GetRevision() != "" {
		return nil, fsops.ErrCapabilityMissing("history")
	}
	in, file, err := f.file(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return nil, err
	}
	defer in.close()
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	sum, err := in.sum(ctx, st.Path)
	if err != nil {
		return nil, err
	}
	window := fsops.WindowRequest{
		OffsetLines: req.GetOffsetLines(), OffsetBytes: req.GetOffsetBytes(), LimitLines: req.GetLimitLines(), LimitBytes: req.GetLimitBytes(),
	}
	read := fsops.ReadText
	if req.GetMode() == fspb.ReadMode_READ_MODE_BYTES {
		read = fsops.ReadBytes
	}
	w, err := read(ctx, sized{file, st.Size}, window)
	if err != nil {
		return nil, err
	}
	resp := &fspb.ReadResponse{
		Info: info(st, sum), StartLine: w.StartLine, LineCount: w.LineCount, StartByte: w.StartByte, NextOffsetBytes: w.NextByte,
		NextOffsetLines: w.NextLine, More: w.More, PartialLine: w.PartialLine, Binary: w.Binary, TotalLines: w.TotalLines,
	}
	if req.GetMode() == fspb.ReadMode_READ_MODE_BYTES {
		resp.Data = w.Data
		return resp, nil
	}
	resp.Text, resp.Replaced = w.Text()
	return resp, nil
}

// sized is a file with the size that it had when it was opened.
type sized struct {
	io.ReaderAt
	size int64
}

func (s sized) Size() int64 { return s.size }

// file opens a file for a call that reads it.
func (f *Files) file(ctx context.Context, path string, layer fspb.Layer) (*inside, sandbox.File, error) {
	p, err := parse(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if _, err := fsops.ParseFilePath(path); err != nil {
		return nil, nil, err
	}
	if err := noLayer(layer); err != nil {
		return nil, nil, err
	}
	in, err := f.look(ctx)
	if err != nil {
		return nil, nil, err
	}
	name, err := in.locate(ctx, p)
	if err == nil {
		file, err := in.Tree.Open(ctx, name)
		if err == nil {
			return in, file, nil
		}
		in.close()
		return nil, nil, err
	}
	in.close()
	return nil, nil, err
}

// Download implements FilesystemService.
func (f *Files) Download(req *fspb.DownloadRequest, stream grpc.ServerStreamingServer[fspb.DownloadResponse]) error {
	ctx := stream.Context()
	if req.GetRevision() != "" {
		return fsops.ErrCapabilityMissing("history")
	}
	in, file, err := f.file(ctx, req.GetPath(), req.GetLayer())
	if err != nil {
		return err
	}
	defer in.close()
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return err
	}
	sum, err := in.sum(ctx, st.Path)
	if err != nil {
		return err
	}
	if err := stream.Send(&fspb.DownloadResponse{Part: &fspb.DownloadResponse_Header{Header: info(st, sum)}}); err != nil {
		return err
	}
	content := io.NewSectionReader(file, req.GetOffsetBytes(), max(st.Size-req.GetOffsetBytes(), 0))
	var sent int64
	for {
		buf := make([]byte, chunkBytes)
		n, err := io.ReadFull(content, buf)
		if n > 0 {
			sent += int64(n)
			if err := stream.Send(&fspb.DownloadResponse{Part: &fspb.DownloadResponse_Chunk{Chunk: buf[:n]}}); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return stream.Send(&fspb.DownloadResponse{Part: &fspb.DownloadResponse_End{End: &fspb.DownloadEnd{SentBytes: sent}}})
		}
		if err != nil {
			return errdefs.New(errdefs.ErrInternal, fsops.Domain, "", "the file could not be read: %w", err)
		}
	}
}

// List implements FilesystemService.
func (f *Files) List(ctx context.Context, req *fspb.ListRequest) (*fspb.ListResponse, error) {
	p, err := parse(ctx, req.GetPath())
	if err != nil {
		return nil, err
	}
	if err := noLayer(req.GetLayer()); err != nil {
		return nil, err
	}
	kind := []string{"list", p.Key(), map[bool]string{true: "recursive"}[req.GetRecursive()]}
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
	if e, err := in.Tree.Stat(ctx, name); err != nil {
		return nil, err
	} else if e.Kind != fs.ModeDir {
		return nil, fsops.ErrNotADirectory(p.String(), p.String())
	}
	w := walker{in: in, recursive: req.GetRecursive(), all: true, directories: true}
	if err := w.walk(ctx, fsops.PathOf(name)); err != nil {
		return nil, err
	}
	resp := &fspb.ListResponse{Warnings: w.warnings}
	resp.Entries, resp.NextPageToken = page(w.found, after, fsops.PageSize(req.GetPageSize()), kind)
	return resp, nil
}

// page cuts a sorted list.
func page(all []sandbox.Entry, after string, size int, kind []string) (out []*fspb.FileInfo, next string) {
	for _, e := range all {
		if after != "" && e.Path <= after {
			continue
		}
		if len(out) == size {
			last := out[size-1]
			key := last.GetPath()
			if b := last.GetPathBytes(); b != nil {
				key = string(b)
			}
			return out, fsops.PageToken(key, kind...)
		}
		out = append(out, info(e, ""))
	}
	return out, ""
}
