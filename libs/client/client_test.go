package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves fake on a name of the network with the keys of a minter.
func start(t testing.TB, network *inproc.Network, name string, keys *access.KeySet, fake *fakefs.Server) {
	t.Helper()
	auth, err := access.New(access.Config{}, access.Options{KeySet: keys})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Address: "memory:" + name}, chain, network)
	if err != nil {
		t.Fatal(err)
	}
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), fake)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
}

func dial(t testing.TB, address string, network *inproc.Network, opts ...grpc.DialOption) filesystemv1.FilesystemServiceClient {
	t.Helper()
	conn, err := client.Dial(address, network, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return filesystemv1.NewFilesystemServiceClient(conn)
}

// seen is what a handler saw of its caller.
type seen struct {
	id     identity.Identity
	bucket identity.Bucket
	source access.Source
	md     metadata.MD
}

func look(ctx context.Context) seen {
	var s seen
	s.id, _ = identity.FromContext(ctx)
	s.bucket, _ = identity.BucketFromContext(ctx)
	g, _ := access.FromContext(ctx)
	s.source = g.Source
	s.md, _ = metadata.FromIncomingContext(ctx)
	return s
}

// TestIdentityAndCapabilityHopOn calls a service that calls another one: both must see who it is for, and which data.
func TestIdentityAndCapabilityHopOn(t *testing.T) {
	minter, err := access.NewMinter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	network := inproc.New()
	var first, second seen
	start(t, network, "back", minter.KeySet(), &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			second = look(ctx)
			return &filesystemv1.StatResponse{}, nil
		},
	})
	back := dial(t, "memory:back", network)
	start(t, network, "front", minter.KeySet(), &fakefs.Server{
		OnStat: func(ctx context.Context, r *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			first = look(ctx)
			return back.Stat(ctx, r)
		},
	})
	front := dial(t, "memory:front", network)
	c := access.Capability{
		Identity: identity.Identity{Tenant: "acme", Agent: "child", User: "Ü/ana", Session: "s2"},
		Bucket:   identity.Bucket{Tenant: "acme", Scope: identity.ScopeSession, Agent: "coder", User: "Ü/ana", Session: "s1"},
		Verbs:    []string{"fs.read"},
	}
	ctx := identity.NewContext(t.Context(), identity.Identity{RequestID: "req-1", Effect: "e1"})
	if ctx, err = minter.Attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	if _, err := front.Stat(ctx, &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	want := c.Identity
	want.RequestID, want.Effect = "req-1", "e1"
	for name, got := range map[string]seen{"first": first, "second": second} {
		if got.id != want || got.bucket != c.Bucket || got.source != access.SourceCapability {
			t.Errorf("%s service saw %+v", name, got)
		}
	}
}

func TestErrorsKeepTheirClassOverTwoHops(t *testing.T) {
	network := inproc.New()
	sent := errdefs.New(errdefs.ErrAborted, "gantry.filesystem.v1", "REVISION_CONFLICT", "ben wrote first: %w", errors.New("private")).With("author", "ben").RetryIn(time.Second)
	start(t, network, "back", nil, &fakefs.Server{
		OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) { return nil, sent },
		OnWatch: func(*filesystemv1.WatchRequest, grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			return sent
		},
		OnUpload: func(s grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error {
			return sent
		},
	})
	back := dial(t, "memory:back", network)
	start(t, network, "front", nil, &fakefs.Server{OnStat: func(ctx context.Context, r *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		return back.Stat(ctx, r)
	}})
	calls := map[string]func() error{
		"one hop": func() error { _, err := back.Stat(t.Context(), &filesystemv1.StatRequest{}); return err },
		"two hops": func() error {
			_, err := dial(t, "memory:front", network).Stat(t.Context(), &filesystemv1.StatRequest{})
			return err
		},
		"server stream": func() error {
			stream, err := back.Watch(t.Context(), &filesystemv1.WatchRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"client stream": func() error {
			stream, err := back.Upload(t.Context())
			if err != nil {
				return err
			}
			_, err = stream.CloseAndRecv()
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call()
			var typed *errdefs.Error
			if !errors.Is(err, errdefs.ErrAborted) || !errors.As(err, &typed) {
				t.Fatalf("got %v", err)
			}
			if typed.Reason != "REVISION_CONFLICT" || typed.Meta["author"] != "ben" || typed.RetryAfter != time.Second || typed.Message != "ben wrote first" {
				t.Errorf("got %+v", typed)
			}
			if strings.Contains(err.Error(), "private") {
				t.Errorf("the cause crossed the wire: %v", err)
			}
		})
	}
}

func TestTheEndOfAStreamIsEOF(t *testing.T) {
	network := inproc.New()
	start(t, network, "x", nil, &fakefs.Server{OnWatch: func(*filesystemv1.WatchRequest, grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
		return nil
	}})
	stream, err := dial(t, "memory:x", network).Watch(t.Context(), &filesystemv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("got %v, want io.EOF itself", err)
	}
}

func TestDeadlines(t *testing.T) {
	var left time.Duration
	var has bool
	network := inproc.New()
	start(t, network, "x", nil, &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			var deadline time.Time
			deadline, has = ctx.Deadline()
			left = time.Until(deadline)
			return &filesystemv1.StatResponse{}, nil
		},
		OnWatch: func(_ *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			_, has = stream.Context().Deadline()
			return nil
		},
	})
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tests := map[string]struct {
		ctx  context.Context
		dial []grpc.DialOption
		call []grpc.CallOption
		most time.Duration
	}{
		"default":            {t.Context(), nil, nil, client.DefaultTimeout},
		"of the context":     {soon, nil, []grpc.CallOption{client.Timeout(time.Hour)}, time.Minute},
		"of the call":        {t.Context(), nil, []grpc.CallOption{client.Timeout(2 * time.Minute)}, 2 * time.Minute},
		"of the connection":  {t.Context(), []grpc.DialOption{grpc.WithDefaultCallOptions(client.Timeout(3 * time.Minute))}, nil, 3 * time.Minute},
		"none: the server's": {t.Context(), nil, []grpc.CallOption{client.Timeout(0)}, middleware.DefaultTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := dial(t, "memory:x", network, tt.dial...).Stat(tt.ctx, &filesystemv1.StatRequest{}, tt.call...); err != nil {
				t.Fatal(err)
			}
			if !has || left > tt.most || left < tt.most-30*time.Second {
				t.Errorf("the handler had %v (%v), want just under %v", left, has, tt.most)
			}
		})
	}
	stream, err := dial(t, "memory:x", network).Watch(t.Context(), &filesystemv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if has {
		t.Error("a stream has a deadline")
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = dial(t, address, nil).Stat(t.Context(), &filesystemv1.StatRequest{})
	var typed *errdefs.Error
	if !errors.Is(err, errdefs.ErrUnavailable) || !errors.As(err, &typed) {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(typed.Public(), "127.0.0.1") {
		t.Errorf("the address is public: %q", typed.Public())
	}
	if !strings.Contains(err.Error(), address) {
		t.Errorf("the log does not learn the address: %v", err)
	}
	if _, err := client.Dial("memory:x", nil); err == nil {
		t.Error("dialled in memory without a network")
	}
}

func TestAMalformedIdentityIsRefusedBeforeTheWire(t *testing.T) {
	c := dial(t, "memory:x", inproc.New())
	ctx := identity.NewContext(t.Context(), identity.Identity{User: "a\nb"})
	if _, err := c.Stat(ctx, &filesystemv1.StatRequest{}); errdefs.ReasonOf(err) != identity.ReasonMalformed {
		t.Errorf("unary: %v", err)
	}
	if _, err := c.Watch(ctx, &filesystemv1.WatchRequest{}); errdefs.ReasonOf(err) != identity.ReasonMalformed {
		t.Errorf("stream: %v", err)
	}
}

func TestForeignServersLearnNothing(t *testing.T) {
	network := inproc.New()
	var got seen
	start(t, network, "x", nil, &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			got = look(ctx)
			return &filesystemv1.StatResponse{}, nil
		},
	})
	conn, err := client.DialForeign("memory:x", network)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := identity.NewContext(t.Context(), identity.Identity{Tenant: "acme", Agent: "coder", User: "ana", Session: "s", RequestID: "req-1", Effect: "e"})
	ctx = access.NewTokenContext(ctx, "secret-token")
	if _, err := filesystemv1.NewFilesystemServiceClient(conn).Stat(ctx, &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	if got.id.RequestID != "req-1" {
		t.Errorf("request id %q", got.id.RequestID)
	}
	for key := range got.md {
		if key == "authorization" || (strings.HasPrefix(key, "gantry-") && key != "gantry-request-id") {
			t.Errorf("%s was sent", key)
		}
	}
}

func TestOwnAuthorizationWins(t *testing.T) {
	network := inproc.New()
	var got seen
	start(t, network, "x", nil, &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			got = look(ctx)
			return &filesystemv1.StatResponse{}, nil
		},
	})
	ctx := access.NewTokenContext(t.Context(), "of-the-context")
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer by-hand")
	if _, err := dial(t, "memory:x", network).Stat(ctx, &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	if values := got.md.Get("authorization"); len(values) != 1 || values[0] != "Bearer by-hand" {
		t.Errorf("authorization %v", values)
	}
}
