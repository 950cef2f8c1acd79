package main

import (
	"bytes"
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// broken is a client whose service breaks a promise now and then.
type broken struct {
	filesystemv1.FilesystemServiceClient
	writes *atomic.Int64
	write  func(n int64, ctx context.Context, req *filesystemv1.WriteRequest) (context.Context, *filesystemv1.WriteResponse)
	append func(context.Context) context.Context
	list   func(context.Context) context.Context
}

func (b broken) Write(ctx context.Context, req *filesystemv1.WriteRequest, opts ...grpc.CallOption) (*filesystemv1.WriteResponse, error) {
	if b.write != nil {
		var answer *filesystemv1.WriteResponse
		if ctx, answer = b.write(b.writes.Add(1), ctx, req); answer != nil {
			return answer, nil
		}
	}
	return b.FilesystemServiceClient.Write(ctx, req, opts...)
}

func (b broken) Append(ctx context.Context, req *filesystemv1.AppendRequest, opts ...grpc.CallOption) (*filesystemv1.AppendResponse, error) {
	if b.append != nil {
		ctx = b.append(ctx)
	}
	return b.FilesystemServiceClient.Append(ctx, req, opts...)
}

func (b broken) List(ctx context.Context, req *filesystemv1.ListRequest, opts ...grpc.CallOption) (*filesystemv1.ListResponse, error) {
	if b.list != nil {
		ctx = b.list(ctx)
	}
	return b.FilesystemServiceClient.List(ctx, req, opts...)
}

// with changes the identity of a call.
func with(ctx context.Context, f func(*identity.Identity)) context.Context {
	id, _ := identity.FromContext(ctx)
	f(&id)
	return identity.NewContext(ctx, id)
}

// TestNotices runs the torture against a service that keeps all promises, and against ones that each break one.
func TestNotices(t *testing.T) {
	for name, tt := range map[string]struct {
		broken broken
		want   []fault // any of them; none: nothing may be found
	}{
		"nothing": {},
		"a write that is acknowledged and dropped": {broken{write: func(n int64, ctx context.Context, req *filesystemv1.WriteRequest) (context.Context, *filesystemv1.WriteResponse) {
			if n%20 != 0 {
				return ctx, nil
			}
			return ctx, &filesystemv1.WriteResponse{Info: &filesystemv1.FileInfo{Path: req.GetPath(), Revision: "dropped"}}
		}}, []fault{lost}},
		"a large write that is dropped": {broken{write: func(_ int64, ctx context.Context, req *filesystemv1.WriteRequest) (context.Context, *filesystemv1.WriteResponse) {
			if content := req.GetContent(); len(content) > 10_000 {
				req = &filesystemv1.WriteRequest{Path: req.GetPath()}
				return ctx, &filesystemv1.WriteResponse{Info: &filesystemv1.FileInfo{Path: req.GetPath(), SizeBytes: int64(len(bytes.TrimSpace(content)))}}
			}
			return ctx, nil
		}}, []fault{lost}},
		"effects that are not recorded": {broken{append: func(ctx context.Context) context.Context {
			return with(ctx, func(id *identity.Identity) { id.Effect = "" })
		}}, []fault{doubled, half}},
		"a write that goes to another user": {broken{write: func(n int64, ctx context.Context, _ *filesystemv1.WriteRequest) (context.Context, *filesystemv1.WriteResponse) {
			if n%3 != 0 {
				return ctx, nil
			}
			return with(ctx, func(id *identity.Identity) { id.User = "a" }), nil
		}}, []fault{leaked}},
		"listings of another user": {broken{list: func(ctx context.Context) context.Context {
			return with(ctx, func(id *identity.Identity) { id.User = "a" })
		}}, []fault{leaked}},
	} {
		t.Run(name, func(t *testing.T) {
			r := inMemory(t)
			tt.broken.FilesystemServiceClient, tt.broken.writes = r.clients[0], new(atomic.Int64)
			r.clients[0] = tt.broken
			r.quiet = true
			if err := r.torture(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(tt.want) == 0 && r.tally.bad() > 0 {
				t.Errorf("found %s", r.tally)
			}
			found := len(tt.want) == 0
			for _, kind := range tt.want {
				found = found || r.tally.faults[kind] > 0
			}
			if !found {
				t.Errorf("not found: %s", r.tally)
			}
			t.Log(r.tally)
		})
	}
}

// inMemory is a run on a service in this process.
func inMemory(t *testing.T) *torturer {
	cfg := workspace.DefaultConfig()
	cfg.Backend, cfg.Workspace, cfg.HistoryCount = workspace.BackendSQLite, filepath.Join(t.TempDir(), "workspace"), historyCount
	cfg.Data = filepath.Join(cfg.Workspace, ".gantry-runtime")
	service, err := workspace.New(t.Context(), cfg, workspace.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	auth, err := access.New(access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: secret}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:workspace"}, chain, network)
	if err != nil {
		t.Fatal(err)
	}
	service.Register(s.Registrar())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial("memory:workspace", network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if conn.Close() != nil || s.Stop(context.Background()) != nil || service.Stop(context.Background()) != nil {
			t.Error("it does not stop in order")
		}
	})
	r := &torturer{opt: options{n: 1600, seed: 7}, backend: backend{name: "sqlite"}, started: time.Now(), killAt: make(chan struct{}, 1)}
	if r.buckets, err = newBuckets(r.started); err != nil {
		t.Fatal(err)
	}
	r.clients = []filesystemv1.FilesystemServiceClient{filesystemv1.NewFilesystemServiceClient(conn)}
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}
