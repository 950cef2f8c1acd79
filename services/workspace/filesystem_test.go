package workspace_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/fstest"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

var profile = fstest.Profile{Layers: true, History: true, ChangeSets: true, Watch: true, Effects: true, ArbitraryNames: true}

func TestFilesystem(t *testing.T) {
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite, workspace.BackendPostgres, workspace.BackendRedis, workspace.BackendObject} {
		t.Run(backend, func(t *testing.T) {
			conn := connect(t, backend)
			fstest.Run(testkit.Wrap(t), func(testkit.T) fstest.Target {
				return fstest.Target{Client: filesystemv1.NewFilesystemServiceClient(conn), Profile: profile}
			})
		})
	}
}

// broken is a client whose service breaks a promise.
type broken struct {
	filesystemv1.FilesystemServiceClient
	context func(context.Context) context.Context
	write   func(*filesystemv1.WriteRequest) bool // false: the write is dropped
}

func (b broken) Write(ctx context.Context, req *filesystemv1.WriteRequest, opts ...grpc.CallOption) (*filesystemv1.WriteResponse, error) {
	if b.write != nil && !b.write(req) {
		return &filesystemv1.WriteResponse{Created: true, Info: &filesystemv1.FileInfo{Path: req.GetPath(), Revision: "dropped"}}, nil
	}
	return b.FilesystemServiceClient.Write(b.in(ctx), req, opts...)
}

func (b broken) Append(ctx context.Context, req *filesystemv1.AppendRequest, opts ...grpc.CallOption) (*filesystemv1.AppendResponse, error) {
	return b.FilesystemServiceClient.Append(b.in(ctx), req, opts...)
}

func (b broken) Grep(ctx context.Context, req *filesystemv1.GrepRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[filesystemv1.GrepResponse], error) {
	return b.FilesystemServiceClient.Grep(b.in(ctx), req, opts...)
}

func (b broken) Download(ctx context.Context, req *filesystemv1.DownloadRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[filesystemv1.DownloadResponse], error) {
	return b.FilesystemServiceClient.Download(b.in(ctx), req, opts...)
}

func (b broken) in(ctx context.Context) context.Context {
	if b.context == nil {
		return ctx
	}
	return b.context(ctx)
}

// change gives the identity of a call another form.
func change(f func(*identity.Identity)) func(context.Context) context.Context {
	return func(ctx context.Context) context.Context {
		id, _ := identity.FromContext(ctx)
		f(&id)
		return identity.NewContext(ctx, id)
	}
}

// The suite fails for an implementation that breaks a promise.
func TestFilesystemSuiteNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the suite once for each fault")
	}
	var writes atomic.Int32
	for name, b := range map[string]broken{
		"drops a write":           {write: func(*filesystemv1.WriteRequest) bool { return writes.Add(1)%9 != 0 }},
		"ignores the user":        {context: change(func(id *identity.Identity) { id.User = "everybody" })},
		"searches another bucket": {context: change(func(id *identity.Identity) { id.Agent = "other" })},
		"ignores effects":         {context: change(func(id *identity.Identity) { id.Effect = "" })},
		"ignores if_revision": {write: func(req *filesystemv1.WriteRequest) bool {
			if req.GetMode() == filesystemv1.WriteMode_WRITE_MODE_IF_REVISION {
				req.Mode, req.IfRevision = filesystemv1.WriteMode_WRITE_MODE_OVERWRITE, ""
			}
			return true
		}},
		"converts line endings": {write: func(req *filesystemv1.WriteRequest) bool {
			req.Content = bytes.ReplaceAll(req.GetContent(), []byte("\r\n"), []byte("\n"))
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b.FilesystemServiceClient = filesystemv1.NewFilesystemServiceClient(serve(t, settings(t, workspace.BackendSQLite), access.Options{}))
			failures := testkit.Failures(func(t testkit.T) {
				fstest.Run(t, func(testkit.T) fstest.Target { return fstest.Target{Client: b, Profile: profile} })
			})
			if len(failures) == 0 {
				t.Error("the suite notices nothing")
			} else {
				t.Logf("%d findings, the first: %s", len(failures), failures[0])
			}
		})
	}
}
