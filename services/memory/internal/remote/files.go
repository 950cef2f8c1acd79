// Package remote implements the ports of package memory with the clients of other services.
//
// Every call goes with the identity of the call that is being served, and with the effect id that the port was given in place of that of the call.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

const (
	listPage = 2000
	// readWindow is what one Read asks for; larger files are downloaded.
	readWindow = 1 << 20
)

// Files implements [memory.Files] with a FilesystemService.
type Files struct {
	client filesystemv1.FilesystemServiceClient
	// oneByOne is set once the service has said that it has no change sets.
	oneByOne atomic.Bool
}

var _ memory.Files = (*Files)(nil)

// NewFiles makes Files over a connection.
func NewFiles(conn grpc.ClientConnInterface) *Files {
	return &Files{client: filesystemv1.NewFilesystemServiceClient(conn)}
}

// under gives the context of a call that is made under an effect id, empty for none.
func under(ctx context.Context, id string) context.Context {
	who, ok := identity.FromContext(ctx)
	if !ok || who.Effect == id {
		return ctx
	}
	who.Effect = id
	return identity.NewContext(ctx, who)
}

// failure gives an error of the file service its meaning for the port. The error itself is kept: it goes on to the caller.
func failure(err error) error {
	err = errgrpc.FromStatus(err)
	switch errdefs.ReasonOf(err) {
	case "PATH_NOT_FOUND":
		return fmt.Errorf("%w: %w", memory.ErrNoFile, err)
	case "REVISION_CONFLICT", "PATH_EXISTS":
		return fmt.Errorf("%w: %w", memory.ErrChanged, err)
	case effect.ReasonMismatch:
		return fmt.Errorf("%w: %w", memory.ErrEffectMismatch, err)
	}
	return err
}

func fileOf(info *filesystemv1.FileInfo) memory.File {
	return memory.File{Path: info.GetPath(), Size: info.GetSizeBytes(), Revision: info.GetRevision(), ModTime: info.GetModifyTime().AsTime()}
}

// List gives every file below a directory.
func (f *Files) List(ctx context.Context, dir string) ([]memory.File, error) {
	ctx = under(ctx, "")
	var out []memory.File
	token := ""
	for {
		page, err := f.client.List(ctx, &filesystemv1.ListRequest{Path: dir, Recursive: true, PageSize: listPage, PageToken: token})
		if err = failure(err); err != nil {
			if errors.Is(err, memory.ErrNoFile) && token == "" {
				return nil, nil
			}
			return nil, err
		}
		for _, info := range page.GetEntries() {
			if info.GetKind() == filesystemv1.FileKind_FILE_KIND_FILE {
				out = append(out, fileOf(info))
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return out, nil
		}
	}
}

// Stat describes a file.
func (f *Files) Stat(ctx context.Context, path string) (memory.File, error) {
	answer, err := f.client.Stat(under(ctx, ""), &filesystemv1.StatRequest{Path: path})
	if err != nil {
		return memory.File{}, failure(err)
	}
	return fileOf(answer.GetInfo()), nil
}

// Read gives a file of one revision: by one Read where it fits, else by Download.
func (f *Files) Read(ctx context.Context, path string) ([]byte, memory.File, error) {
	ctx = under(ctx, "")
	answer, err := f.client.Read(ctx, &filesystemv1.ReadRequest{Path: path, Mode: filesystemv1.ReadMode_READ_MODE_BYTES, LimitBytes: readWindow})
	if err != nil {
		return nil, memory.File{}, failure(err)
	}
	if !answer.GetMore() {
		return answer.GetData(), fileOf(answer.GetInfo()), nil
	}
	return f.download(ctx, path)
}

func (f *Files) download(ctx context.Context, path string) ([]byte, memory.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.client.Download(ctx, &filesystemv1.DownloadRequest{Path: path})
	if err != nil {
		return nil, memory.File{}, failure(err)
	}
	var info memory.File
	var data bytes.Buffer
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, info, errdefs.New(errdefs.ErrUnavailable, memory.Domain, "", "the download of %s ended early", path)
		case err != nil:
			return nil, info, failure(err)
		}
		switch part := m.GetPart().(type) {
		case *filesystemv1.DownloadResponse_Header:
			info = fileOf(part.Header)
		case *filesystemv1.DownloadResponse_Chunk:
			data.Write(part.Chunk)
			if data.Len() >= memory.MaxFileBytes {
				return data.Bytes()[:memory.MaxFileBytes], info, nil
			}
		case *filesystemv1.DownloadResponse_End:
			return data.Bytes(), info, nil
		}
	}
}

// Append adds to a file.
func (f *Files) Append(ctx context.Context, id, path string, data []byte) (string, error) {
	answer, err := f.client.Append(under(ctx, id), &filesystemv1.AppendRequest{Path: path, Content: data, EnsureNewline: true})
	if err != nil {
		return "", failure(err)
	}
	return answer.GetCursor(), nil
}

// Write makes the changes as one set, or one by one where the service has no sets.
func (f *Files) Write(ctx context.Context, id string, changes []memory.Change) (string, error) {
	if !f.oneByOne.Load() {
		req := &filesystemv1.ApplyChangesRequest{}
		for _, c := range changes {
			req.Changes = append(req.Changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: writeOf(c)}})
		}
		answer, err := f.client.ApplyChanges(under(ctx, id), req)
		err = writeFailure(err)
		if err == nil {
			return answer.GetCursor(), nil
		}
		if !errors.Is(err, errdefs.ErrUnimplemented) {
			return "", err
		}
		f.oneByOne.Store(true)
	}
	cursor := ""
	for _, c := range changes {
		answer, err := f.client.Write(under(ctx, effect.Derive(id, c.Path)), writeOf(c))
		if err != nil {
			return "", writeFailure(err)
		}
		cursor = answer.GetCursor()
	}
	return cursor, nil
}

// writeFailure is failure for a write, where a file that is gone is one that has changed.
func writeFailure(err error) error {
	if err = failure(err); errors.Is(err, memory.ErrNoFile) {
		return fmt.Errorf("%w: %w", memory.ErrChanged, err)
	}
	return err
}

func writeOf(c memory.Change) *filesystemv1.WriteRequest {
	req := &filesystemv1.WriteRequest{Path: c.Path, Content: c.Content, Mode: filesystemv1.WriteMode_WRITE_MODE_OVERWRITE}
	switch c.Condition {
	case memory.IfMissing:
		req.Mode = filesystemv1.WriteMode_WRITE_MODE_CREATE
	case memory.IfRevision:
		req.Mode, req.IfRevision = filesystemv1.WriteMode_WRITE_MODE_IF_REVISION, c.Revision
	}
	return req
}

// KeepsHistory asks for the service's capabilities.
func (f *Files) KeepsHistory(ctx context.Context) (bool, error) {
	answer, err := f.client.GetCapabilities(under(ctx, ""), &filesystemv1.GetCapabilitiesRequest{})
	return answer.GetHistory(), failure(err)
}

// Delete removes a file.
func (f *Files) Delete(ctx context.Context, path string) error {
	_, err := f.client.Delete(under(ctx, ""), &filesystemv1.DeleteRequest{Path: path, AllowMissing: true})
	return failure(err)
}
