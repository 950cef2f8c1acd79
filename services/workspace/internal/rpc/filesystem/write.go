package filesystem

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
)

const (
	// maxUnaryBytes bounds the content of Write and Append.
	maxUnaryBytes = 15 << 20
	// maxChunkBytes bounds a chunk of an upload.
	maxChunkBytes = 1 << 20
)

// change is a resolved call that changes a file.
type change struct {
	caller *caller.Caller
	target caller.Target
	path   fsops.Path // in the target
	call   files.Call
}

// change resolves a call that changes the file at a path.
func (s *Server) change(ctx context.Context, method, text string, layer filesystemv1.Layer, request proto.Message, parse func(string) (fsops.Path, error)) (change, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return change{}, err
	}
	out, err := resolveChange(c, text, layer, parse)
	if err == nil && request != nil {
		out.call, err = c.Call(method, request)
	}
	return out, err
}

// resolveChange resolves the path and the layer of a change, and checks that the caller may make it.
func resolveChange(c *caller.Caller, text string, layer filesystemv1.Layer, parse func(string) (fsops.Path, error)) (change, error) {
	p, err := parse(text)
	if err != nil {
		return change{}, err
	}
	l, err := layerOf(layer)
	if err != nil {
		return change{}, err
	}
	if err := c.MayWrite(p); err != nil {
		return change{}, err
	}
	out := change{caller: c}
	if out.target, err = c.Target(l, p); err != nil {
		return change{}, err
	}
	out.path = out.target.Path(p)
	return out, nil
}

// Write implements the service.
func (s *Server) Write(ctx context.Context, req *filesystemv1.WriteRequest) (*filesystemv1.WriteResponse, error) {
	if size := int64(len(req.GetContent())); size > maxUnaryBytes {
		return nil, fsops.ErrTooLarge(maxUnaryBytes, size)
	}
	c, err := s.change(ctx, "Write", req.GetPath(), req.GetLayer(), req, fsops.ParseFilePath)
	if err != nil {
		return nil, err
	}
	content, err := s.callers.Store.Stage(ctx, bytes.NewReader(req.GetContent()), 0)
	if err != nil {
		return nil, err
	}
	out, err := c.target.View.Write(ctx, c.call, files.Write{
		Path: c.path, Mode: modeOf(req.GetMode()), Revision: req.GetIfRevision(), FileMode: req.GetFileMode(),
	}, content)
	if err != nil {
		return nil, err
	}
	return &filesystemv1.WriteResponse{Info: infoOf(c.target.Entry(out.Entry)), Created: out.Created, Cursor: out.Cursor}, nil
}

// Edit implements the service.
func (s *Server) Edit(ctx context.Context, req *filesystemv1.EditRequest) (*filesystemv1.EditResponse, error) {
	c, err := s.change(ctx, "Edit", req.GetPath(), req.GetLayer(), req, fsops.ParseFilePath)
	if err != nil {
		return nil, err
	}
	out, err := c.target.View.Edit(ctx, c.call, c.path, editsOf(req), req.GetIfRevision())
	if err != nil {
		return nil, err
	}
	counts := make([]int32, len(out.Counts))
	for i, n := range out.Counts {
		counts[i] = int32(n)
	}
	return &filesystemv1.EditResponse{Info: infoOf(c.target.Entry(out.Entry)), Replaced: counts, Cursor: out.Cursor, Diff: out.Diff}, nil
}

func editsOf(req *filesystemv1.EditRequest) []fsops.Replacement {
	edits := make([]fsops.Replacement, len(req.GetReplacements()))
	for i, r := range req.GetReplacements() {
		edits[i] = fsops.Replacement{Old: r.GetOldText(), New: r.GetNewText(), All: r.GetReplaceAll()}
	}
	return edits
}

// Append implements the service.
func (s *Server) Append(ctx context.Context, req *filesystemv1.AppendRequest) (*filesystemv1.AppendResponse, error) {
	if size := int64(len(req.GetContent())); size > maxUnaryBytes {
		return nil, fsops.ErrTooLarge(maxUnaryBytes, size)
	}
	c, err := s.change(ctx, "Append", req.GetPath(), filesystemv1.Layer_LAYER_BUCKET, req, fsops.ParseFilePath)
	if err != nil {
		return nil, err
	}
	out, err := c.target.View.Append(ctx, c.call, c.path, req.GetContent(), req.GetEnsureNewline())
	if err != nil {
		return nil, err
	}
	return &filesystemv1.AppendResponse{Info: infoOf(out.Entry), OffsetBytes: out.Offset, Cursor: out.Cursor}, nil
}

// Delete implements the service.
func (s *Server) Delete(ctx context.Context, req *filesystemv1.DeleteRequest) (*filesystemv1.DeleteResponse, error) {
	c, err := s.change(ctx, "Delete", req.GetPath(), req.GetLayer(), req, fsops.ParsePath)
	if err != nil {
		return nil, err
	}
	out, err := c.target.View.Delete(ctx, c.call, files.Delete{
		Path: c.path, Recursive: req.GetRecursive(), AllowMissing: req.GetAllowMissing(), Revision: req.GetIfRevision(),
	})
	if err != nil {
		return nil, err
	}
	return &filesystemv1.DeleteResponse{Files: out.Files, Cursor: out.Cursor}, nil
}

// Move implements the service.
func (s *Server) Move(ctx context.Context, req *filesystemv1.MoveRequest) (*filesystemv1.MoveResponse, error) {
	from, err := s.change(ctx, "Move", req.GetFromPath(), filesystemv1.Layer_LAYER_BUCKET, req, fsops.ParsePath)
	if err != nil {
		return nil, err
	}
	to, err := s.change(ctx, "Move", req.GetToPath(), filesystemv1.Layer_LAYER_BUCKET, req, fsops.ParsePath)
	if err != nil {
		return nil, err
	}
	out, err := from.target.View.Move(ctx, from.call, files.Move{From: from.path, To: to.path, Overwrite: req.GetOverwrite(), Revision: req.GetIfRevision()})
	if err != nil {
		return nil, err
	}
	return &filesystemv1.MoveResponse{Info: infoOf(out.Entry), Files: out.Files, Cursor: out.Cursor}, nil
}

// Upload implements the service.
func (s *Server) Upload(stream grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	header := first.GetHeader()
	if header == nil {
		return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, "", "the first message of an upload must be its header")
	}
	c, err := s.change(ctx, "Upload", header.GetPath(), header.GetLayer(), nil, fsops.ParseFilePath)
	if err != nil {
		return err
	}
	content, err := s.callers.Store.Stage(ctx, &chunks{stream: stream}, s.callers.Limits.FileBytes)
	if err != nil {
		return err
	}
	defer content.Discard()
	if want := header.GetSha256(); want != "" && want != content.SHA256() {
		return fsops.ErrChecksumMismatch(want, content.SHA256())
	}
	if c.call, err = c.caller.Call("Upload", header, content.SHA256()); err != nil {
		return err
	}
	out, err := c.target.View.Write(ctx, c.call, files.Write{
		Path: c.path, Mode: modeOf(header.GetMode()), Revision: header.GetIfRevision(), FileMode: header.GetFileMode(),
	}, content)
	if err != nil {
		return err
	}
	return stream.SendAndClose(&filesystemv1.UploadResponse{Info: infoOf(c.target.Entry(out.Entry)), Created: out.Created, Cursor: out.Cursor})
}

// chunks reads the bytes of an upload.
type chunks struct {
	stream grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]
	rest   []byte
}

// Read implements [io.Reader].
func (c *chunks) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		message, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		if message.GetHeader() != nil {
			return 0, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, "", "an upload has one header")
		}
		if size := len(message.GetChunk()); size > maxChunkBytes {
			return 0, fsops.ErrTooLarge(maxChunkBytes, int64(size))
		}
		c.rest = message.GetChunk()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
