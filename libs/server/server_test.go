package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func chain(t testing.TB, cfg access.Config) middleware.Chain {
	t.Helper()
	auth, err := access.New(cfg, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newServer(t testing.TB, cfg server.Config, network *inproc.Network, fake *fakefs.Server) *server.Server {
	t.Helper()
	s, err := server.New(cfg, chain(t, access.Config{}), network)
	if err != nil {
		t.Fatal(err)
	}
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), fake)
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

func dial(t testing.TB, address string, network *inproc.Network) *grpc.ClientConn {
	t.Helper()
	conn, err := client.Dial(address, network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestEveryNetwork(t *testing.T) {
	network := inproc.New()
	socket := filepath.Join(t.TempDir(), "private", "gantry.sock")
	for name, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": "unix:" + socket, "memory": "memory:workspace"} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, server.Config{Address: address, Reflection: true}, network, fakefs.Echo())
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if name != "tcp" && s.Addr() != address {
				t.Errorf("Addr = %q, want %q", s.Addr(), address)
			}
			conn := dial(t, s.Addr(), network)
			response, err := filesystemv1.NewFilesystemServiceClient(conn).Stat(t.Context(), &filesystemv1.StatRequest{Path: "a.md"})
			if err != nil || response.GetInfo().GetPath() != "a.md" {
				t.Fatalf("%v, %v", response, err)
			}
			health := healthpb.NewHealthClient(conn)
			for _, service := range []string{"", "gantry.filesystem.v1.FilesystemService"} {
				got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
				if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
					t.Errorf("health of %q: %v, %v", service, got, err)
				}
			}
			s.SetServing("gantry.filesystem.v1.FilesystemService", false)
			got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "gantry.filesystem.v1.FilesystemService"})
			if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
				t.Errorf("health after SetServing(false): %v, %v", got, err)
			}
			if services := reflected(t, conn); !strings.Contains(services, "gantry.filesystem.v1.FilesystemService") {
				t.Errorf("reflection lists %q", services)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			<-s.Done()
			if err := s.Err(); err != nil {
				t.Errorf("Err after Stop = %v", err)
			}
		})
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stayed: %v", err)
	}
}

func reflected(t testing.TB, conn *grpc.ClientConn) string {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	return response.GetListServicesResponse().String()
}

func TestWithoutAuthenticationOnlyThisMachineIsServed(t *testing.T) {
	open := chain(t, access.Config{})
	closed := chain(t, access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: "0123456789abcdef0123456789abcdef"})
	tests := map[string]struct {
		chain   middleware.Chain
		address string
		refused bool
	}{
		"loopback":         {open, "127.0.0.1:0", false},
		"other loopback":   {open, "127.3.2.1:0", false},
		"IPv6 loopback":    {open, "[::1]:0", false},
		"localhost":        {open, "localhost:0", false},
		"unix":             {open, "unix:/run/x", false},
		"all":              {open, "0.0.0.0:0", true},
		"all, short":       {open, ":7401", true},
		"all IPv6":         {open, "[::]:0", true},
		"another address":  {open, "10.0.0.1:0", true},
		"a name":           {open, "gantry.example:7401", true},
		"no chain at all":  {middleware.Chain{}, "0.0.0.0:0", true},
		"with credentials": {closed, "0.0.0.0:0", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := server.New(server.Config{Address: tt.address}, tt.chain, nil)
			if errors.Is(err, server.ErrOpenAddress) != tt.refused || (err != nil) != tt.refused {
				t.Errorf("New = %v, want refused: %v", err, tt.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "auth-mode") {
				t.Errorf("%q does not name the setting", err)
			}
		})
	}
}

func TestBadSettings(t *testing.T) {
	for name, cfg := range map[string]server.Config{
		"no port":         {Address: "127.0.0.1"},
		"empty port":      {Address: "127.0.0.1:"},
		"no path":         {Address: "unix:"},
		"no name":         {Address: "memory:"},
		"memory alone":    {Address: "memory:x"},
		"tiny messages":   {Address: "127.0.0.1:0", MaxMessageBytes: 10},
		"time runs ahead": {Address: "127.0.0.1:0", ShutdownTimeout: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := server.New(cfg, chain(t, access.Config{}), nil); err == nil {
				t.Error("New succeeded")
			}
		})
	}
}

func TestABusyAddressIsNamed(t *testing.T) {
	network := inproc.New()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket := "unix:" + filepath.Join(t.TempDir(), "s")
	for _, address := range []string{socket, "memory:x"} {
		if err := newServer(t, server.Config{Address: address}, network, fakefs.Echo()).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{l.Addr().String(), socket, "memory:x"} {
		err := newServer(t, server.Config{Address: address}, network, fakefs.Echo()).Start(t.Context())
		var busy *server.BusyError
		if !errors.As(err, &busy) || busy.Address != address {
			t.Fatalf("%s: Start = %v", address, err)
		}
		if text := err.Error(); !strings.Contains(text, address) || !strings.Contains(text, "setting: address") {
			t.Errorf("%q names neither address nor setting", text)
		}
	}
	conn := dial(t, socket, nil)
	if _, err := filesystemv1.NewFilesystemServiceClient(conn).Stat(t.Context(), &filesystemv1.StatRequest{}); err != nil {
		t.Errorf("the first server lost its socket: %v", err)
	}
}

func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "left"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, server.Config{Address: "unix:" + path}, nil, fakefs.Echo())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the socket: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of its folder: %v, %v", info.Mode(), err)
	}
	if err := newServer(t, server.Config{Address: "unix:" + filepath.Join(dir, "left")}, nil, fakefs.Echo()).Start(t.Context()); err != nil {
		t.Errorf("a left-over socket: %v", err)
	}
	if err := newServer(t, server.Config{Address: "unix:" + filepath.Join(dir, "file")}, nil, fakefs.Echo()).Start(t.Context()); err == nil {
		t.Error("served on a plain file")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(data) != "precious" {
		t.Errorf("the plain file became %q, %v", data, err)
	}
}

func TestStopLetsCallsEnd(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	network := inproc.New()
	s := newServer(t, server.Config{Address: "memory:x"}, network, &fakefs.Server{
		OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			close(entered)
			<-release
			return &filesystemv1.StatResponse{}, nil
		},
		OnWatch: func(_ *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			<-server.Stopping(stream.Context())
			return nil
		},
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := filesystemv1.NewFilesystemServiceClient(dial(t, "memory:x", network))
	answered := make(chan error, 1)
	go func() {
		_, err := c.Stat(t.Context(), &filesystemv1.StatRequest{})
		answered <- err
	}()
	<-entered
	watch, err := c.Watch(t.Context(), &filesystemv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	// The watch ends when Stop has begun, and in good order.
	if _, err := watch.Recv(); err != io.EOF {
		t.Errorf("the watch ended with %v", err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned %v while a call was under way", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop = %v", err)
	}
	if server.Stopping(t.Context()) != nil {
		t.Error("a context that is of no call has a server that stops")
	}
}

func TestStopCutsWhatDoesNotEnd(t *testing.T) {
	entered := make(chan struct{})
	var ended error
	network := inproc.New()
	s := newServer(t, server.Config{Address: "memory:x", ShutdownTimeout: 10 * time.Millisecond}, network, &fakefs.Server{
		OnWatch: func(_ *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			close(entered)
			<-stream.Context().Done()
			ended = stream.Context().Err()
			return ended
		},
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream, err := filesystemv1.NewFilesystemServiceClient(dial(t, "memory:x", network)).Watch(t.Context(), &filesystemv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("Stop = %v", err)
	}
	if ended == nil {
		t.Error("Stop returned before the handler ended")
	}
	if _, err := stream.Recv(); status.Code(err) == codes.OK {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	network := inproc.New()
	for range 50 {
		s := newServer(t, server.Config{Address: "memory:x"}, network, fakefs.Echo())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = s.Start(t.Context()) })
			wg.Go(func() {
				if err := s.Stop(t.Context()); err != nil {
					t.Errorf("Stop = %v", err)
				}
			})
		}
		wg.Wait()
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("Stop = %v", err)
		}
		if err := s.Start(t.Context()); err == nil {
			t.Fatal("started after Stop")
		}
	}
}

func TestAServerDoesNotStartWithAMethodThatDeclaresNoAccess(t *testing.T) {
	s := newServer(t, server.Config{Address: "memory:x"}, inproc.New(), fakefs.Echo())
	s.Registrar().RegisterService(&grpc.ServiceDesc{
		ServiceName: "gantry.test.v1.ForgottenService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Do"}},
	}, struct{}{})
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "/gantry.test.v1.ForgottenService/Do") {
		t.Errorf("Start = %v", err)
	}
}

func TestMessagesOverTheLimitAreRefused(t *testing.T) {
	network := inproc.New()
	s := newServer(t, server.Config{Address: "memory:x", MaxMessageBytes: 2048}, network, fakefs.Echo())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := filesystemv1.NewFilesystemServiceClient(dial(t, "memory:x", network))
	if _, err := c.Stat(t.Context(), &filesystemv1.StatRequest{Path: strings.Repeat("x", 3000)}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v", err)
	}
	if _, err := c.Stat(t.Context(), &filesystemv1.StatRequest{Path: strings.Repeat("x", 900)}); err != nil {
		t.Errorf("a message within the limit: %v", err)
	}
}

// TestDefaultsAgree holds the tags, from which documentation is made, to the defaults of the code.
func TestDefaultsAgree(t *testing.T) {
	var fromTags server.Config
	if err := config.Load(&fromTags, nil, config.Options{LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
		t.Fatal(err)
	}
	if fromTags != server.DefaultConfig() {
		t.Errorf("tags say %+v, DefaultConfig %+v", fromTags, server.DefaultConfig())
	}
}
