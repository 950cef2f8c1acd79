package router

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// forward sends a call on one path to the path's owner.
func forward[Req interface{ GetPath() string }, Resp any](ctx context.Context, r *Router, req Req,
	call func(fsv1.FilesystemServiceClient, context.Context, Req, ...grpc.CallOption) (Resp, error),
) (resp Resp, err error) {
	owner, err := r.owner(ctx, req.GetPath())
	if err != nil {
		return resp, err
	}
	return call(owner, ctx, req)
}

// Stat describes a path.
func (r *Router) Stat(ctx context.Context, req *fsv1.StatRequest) (*fsv1.StatResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Stat)
}

// Read reads a window of a file.
func (r *Router) Read(ctx context.Context, req *fsv1.ReadRequest) (*fsv1.ReadResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Read)
}

// Write writes a file.
func (r *Router) Write(ctx context.Context, req *fsv1.WriteRequest) (*fsv1.WriteResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Write)
}

// Edit edits a file.
func (r *Router) Edit(ctx context.Context, req *fsv1.EditRequest) (*fsv1.EditResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Edit)
}

// Append adds to a file.
func (r *Router) Append(ctx context.Context, req *fsv1.AppendRequest) (*fsv1.AppendResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Append)
}

// Delete deletes a path.
func (r *Router) Delete(ctx context.Context, req *fsv1.DeleteRequest) (*fsv1.DeleteResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.Delete)
}

// ListRevisions lists versions of a path.
func (r *Router) ListRevisions(ctx context.Context, req *fsv1.ListRevisionsRequest) (*fsv1.ListRevisionsResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.ListRevisions)
}

// RestoreRevision restores a version of a path.
func (r *Router) RestoreRevision(ctx context.Context, req *fsv1.RestoreRevisionRequest) (*fsv1.RestoreRevisionResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.RestoreRevision)
}

// DiffRevisions compares versions of a path.
func (r *Router) DiffRevisions(ctx context.Context, req *fsv1.DiffRevisionsRequest) (*fsv1.DiffRevisionsResponse, error) {
	return forward(ctx, r, req, fsv1.FilesystemServiceClient.DiffRevisions)
}

// GetUsage adds up what the bucket holds in both trees, and what it may hold.
func (r *Router) GetUsage(ctx context.Context, req *fsv1.GetUsageRequest) (*fsv1.GetUsageResponse, error) {
	got, err := r.workspace.GetUsage(ctx, req)
	if err != nil {
		return nil, err
	}
	mode, err := r.mode(ctx)
	if err != nil || mode == Store {
		return got, err
	}
	inside, err := r.sandbox.GetUsage(ctx, req)
	if err != nil {
		return nil, err
	}
	a, b := got.GetUsage(), inside.GetUsage()
	return &fsv1.GetUsageResponse{Usage: &fsv1.Usage{
		UsedBytes: a.GetUsedBytes() + b.GetUsedBytes(), UsedFiles: a.GetUsedFiles() + b.GetUsedFiles(),
		LimitBytes: bound(a.GetLimitBytes(), b.GetLimitBytes()), LimitFiles: bound(a.GetLimitFiles(), b.GetLimitFiles()),
		LimitFileBytes: max(a.GetLimitFileBytes(), b.GetLimitFileBytes()),
	}}, nil
}

// bound adds two limits; no limit on either side is no limit.
func bound(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a + b
}

// ApplyChanges applies a set within one tree. A set over both can't be atomic and is refused.
func (r *Router) ApplyChanges(ctx context.Context, req *fsv1.ApplyChangesRequest) (*fsv1.ApplyChangesResponse, error) {
	var owner fsv1.FilesystemServiceClient
	for _, p := range changedPaths(req) {
		o, err := r.owner(ctx, p)
		if err != nil {
			return nil, err
		}
		if owner != nil && owner != o {
			return nil, unsupported("change_sets", "a set of changes can't span the workspace and a sandbox: apply one set for each")
		}
		owner = o
	}
	return owner.ApplyChanges(ctx, req)
}

func changedPaths(req *fsv1.ApplyChangesRequest) []string {
	var paths []string
	for _, c := range req.GetChanges() {
		switch c := c.GetChange().(type) {
		case *fsv1.FileChange_Write:
			paths = append(paths, c.Write.GetPath())
		case *fsv1.FileChange_Edit:
			paths = append(paths, c.Edit.GetPath())
		case *fsv1.FileChange_Delete:
			paths = append(paths, c.Delete.GetPath())
		case *fsv1.FileChange_Move:
			paths = append(paths, c.Move.GetFromPath(), c.Move.GetToPath())
		}
	}
	return paths
}

// Upload writes a file of any size.
func (r *Router) Upload(in grpc.ClientStreamingServer[fsv1.UploadRequest, fsv1.UploadResponse]) error {
	first, err := in.Recv()
	if err != nil {
		return err
	}
	owner, err := r.owner(in.Context(), first.GetHeader().GetPath())
	if err != nil {
		return err
	}
	out, err := owner.Upload(in.Context())
	if err != nil {
		return err
	}
	for msg := first; ; {
		if err := out.Send(msg); err != nil && !errors.Is(err, io.EOF) {
			return err // io.EOF: the owner has answered; its answer comes with CloseAndRecv
		} else if err != nil {
			break
		}
		if msg, err = in.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	resp, err := out.CloseAndRecv()
	if err != nil {
		return err
	}
	return in.SendAndClose(resp)
}

// Download streams a file.
func (r *Router) Download(req *fsv1.DownloadRequest, out grpc.ServerStreamingServer[fsv1.DownloadResponse]) error {
	owner, err := r.owner(out.Context(), req.GetPath())
	if err != nil {
		return err
	}
	in, err := owner.Download(out.Context(), req)
	if err != nil {
		return err
	}
	return relay(in, out.Send)
}

// Watch follows the changes of the workspace service. Where some paths are inside a sandbox there is no order over all of them, so there is no watch.
func (r *Router) Watch(req *fsv1.WatchRequest, out grpc.ServerStreamingServer[fsv1.WatchResponse]) error {
	if mode, err := r.mode(out.Context()); err != nil {
		return err
	} else if mode == Sandbox {
		return unsupported("watch", "what commands change inside a sandbox can't be watched; the workspace service watches the paths of the layout")
	}
	in, err := r.workspace.Watch(out.Context(), req)
	if err != nil {
		return err
	}
	return relay(in, out.Send)
}

// relay passes a stream on to its end.
func relay[T any](in grpc.ServerStreamingClient[T], send func(*T) error) error {
	for {
		msg, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := send(msg); err != nil {
			return err
		}
	}
}
