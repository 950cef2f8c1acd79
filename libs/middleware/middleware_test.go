package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines of the log so far, decoded.
func (b *buffer) lines(t testing.TB) []map[string]any {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []map[string]any
	for text := range strings.Lines(b.text.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// fixture is a server with the default chain and a bare gRPC client, so that what crosses the wire can be seen.
type fixture struct {
	filesystemv1.FilesystemServiceClient
	log *buffer
}

func start(t testing.TB, fake *fakefs.Server, change func(*middleware.Options)) fixture {
	t.Helper()
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := &buffer{}
	opts := middleware.Options{Access: auth, Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&opts)
	}
	chain, err := middleware.Default(opts)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer(append(chain.ServerOptions(), grpc.WaitForHandlers(true))...)
	filesystemv1.RegisterFilesystemServiceServer(s, fake)
	go s.Serve(l)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
	})
	return fixture{filesystemv1.NewFilesystemServiceClient(conn), log}
}

func info(t testing.TB, err error) *errdetails.ErrorInfo {
	t.Helper()
	for _, detail := range status.Convert(err).Details() {
		if found, ok := detail.(*errdetails.ErrorInfo); ok {
			return found
		}
	}
	t.Fatalf("%v has no ErrorInfo", err)
	return nil
}

func TestIdentityReachesTheHandler(t *testing.T) {
	var got identity.Identity
	var grant access.Grant
	note := func(ctx context.Context) {
		got, _ = identity.FromContext(ctx)
		grant, _ = access.FromContext(ctx)
	}
	f := start(t, &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			note(ctx)
			return &filesystemv1.StatResponse{}, nil
		},
		OnWatch: func(_ *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			note(stream.Context())
			return nil
		},
	}, nil)
	calls := map[string]func(context.Context) error{
		"unary": func(ctx context.Context) error {
			_, err := f.Stat(ctx, &filesystemv1.StatRequest{})
			return err
		},
		"stream": func(ctx context.Context) error {
			stream, err := f.Watch(ctx, &filesystemv1.WatchRequest{})
			if err != nil {
				return err
			}
			if _, err := stream.Recv(); err != io.EOF {
				return err
			}
			return nil
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "gantry-user", "%C3%9C", "gantry-session", "s1", "gantry-request-id", "req-1", "gantry-effect", "e", "gantry-sandbox", "sb", "gantry-scope", "session")
			if err := call(ctx); err != nil {
				t.Fatal(err)
			}
			want := identity.Identity{Tenant: "default", Agent: "default", User: "Ü", Session: "s1", Scope: identity.ScopeSession, RequestID: "req-1", Effect: "e", Sandbox: "sb"}
			if got != want {
				t.Errorf("identity %+v, want %+v", got, want)
			}
			if grant.Source != access.SourceTrusted || grant.Identity != want {
				t.Errorf("grant %+v", grant)
			}
		})
	}
}

func TestRequestIDIsReturned(t *testing.T) {
	f := start(t, fakefs.Echo(), nil)
	call := func(ctx context.Context) []string {
		var header metadata.MD
		_, err := f.Stat(ctx, &filesystemv1.StatRequest{}, grpc.Header(&header))
		if err != nil && status.Code(err) != codes.InvalidArgument {
			t.Fatal(err)
		}
		return header.Get("gantry-request-id")
	}
	first, second := call(t.Context()), call(t.Context())
	if len(first) != 1 || len(first[0]) < 16 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("made ids %v and %v", first, second)
	}
	if got := call(metadata.AppendToOutgoingContext(t.Context(), "gantry-request-id", "mine%20x")); len(got) != 1 || got[0] != "mine%20x" {
		t.Errorf("own id came back as %v", got)
	}
	if got := call(metadata.AppendToOutgoingContext(t.Context(), "gantry-user", "%zz")); len(got) != 1 {
		t.Errorf("a refusal has the ids %v", got)
	}
}

func TestRefusalsAreStatusesAndLogged(t *testing.T) {
	called := false
	f := start(t, &fakefs.Server{OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		called = true
		return nil, nil
	}}, nil)
	_, err := f.Stat(metadata.AppendToOutgoingContext(t.Context(), "gantry-user", "a%0Ab", "gantry-request-id", "req-7"), &filesystemv1.StatRequest{})
	if status.Code(err) != codes.InvalidArgument || info(t, err).GetReason() != identity.ReasonMalformed || info(t, err).GetDomain() != "gantry.common.v1" {
		t.Errorf("got %v", err)
	}
	if called {
		t.Error("the handler ran")
	}
	lines := f.log.lines(t)
	if len(lines) != 1 || lines[0]["code"] != "InvalidArgument" || lines[0]["reason"] != identity.ReasonMalformed || lines[0]["request_id"] != "req-7" || lines[0]["level"] != "INFO" {
		t.Errorf("log %v", lines)
	}
}

func TestPanic(t *testing.T) {
	f := start(t, &fakefs.Server{
		OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			panic("secret of ana")
		},
		OnUpload: func(grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error {
			panic("secret of ana")
		},
	}, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "gantry-request-id", "req-9")
	_, unaryErr := f.Stat(ctx, &filesystemv1.StatRequest{})
	stream, err := f.Upload(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, streamErr := stream.CloseAndRecv()
	for name, err := range map[string]error{"unary": unaryErr, "stream": streamErr} {
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if found := info(t, err); found.GetReason() != middleware.ReasonPanic || found.GetMetadata()["request_id"] != "req-9" {
			t.Errorf("%s: %v", name, found)
		}
	}
	stacks := 0
	for _, line := range f.log.lines(t) {
		if text, ok := line["stack"].(string); ok && strings.Contains(text, "middleware_test.go") && line["panic"] == "secret of ana" && line["request_id"] == "req-9" {
			stacks++
		}
	}
	if stacks != 2 {
		t.Errorf("%d stacks in the log, want 2", stacks)
	}
}

func TestErrorsKeepTheirCausePrivate(t *testing.T) {
	cause := errors.New("dial tcp 10.9.8.7: refused")
	f := start(t, &fakefs.Server{OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		return nil, fmt.Errorf("stat: %w", errdefs.New(errdefs.ErrUnavailable, "gantry.filesystem.v1", "STORE_DOWN", "the store is not reachable: %w", cause).RetryIn(2*time.Second))
	}}, nil)
	_, err := f.Stat(t.Context(), &filesystemv1.StatRequest{})
	s := status.Convert(err)
	if s.Code() != codes.Unavailable || s.Message() != "the store is not reachable" || info(t, err).GetReason() != "STORE_DOWN" || len(s.Details()) != 2 {
		t.Errorf("got %v", s.Proto())
	}
	lines := f.log.lines(t)
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0]["error"]), "10.9.8.7") || lines[0]["level"] != "WARN" {
		t.Errorf("the log lacks the cause: %v", lines)
	}
}

func TestValidation(t *testing.T) {
	received := 0
	var handlerErr error
	swallow := false
	f := start(t, &fakefs.Server{
		OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			received++
			return &filesystemv1.StatResponse{}, nil
		},
		OnUpload: func(stream grpc.ClientStreamingServer[filesystemv1.UploadRequest, filesystemv1.UploadResponse]) error {
			for {
				if _, err := stream.Recv(); err == io.EOF {
					return stream.SendAndClose(&filesystemv1.UploadResponse{})
				} else if err != nil {
					if _, again := stream.Recv(); again == nil {
						return errors.New("a refused stream gave another message")
					}
					if swallow {
						return nil
					}
					handlerErr = errdefs.Wrap(err, errdefs.ErrInternal, "d", "WRONG", "receive failed")
					return handlerErr
				}
				received++
			}
		},
	}, nil)
	check := func(name string, err error) {
		t.Helper()
		if status.Code(err) != codes.InvalidArgument || info(t, err).GetReason() != middleware.ReasonRequestInvalid {
			t.Fatalf("%s: %v", name, err)
		}
		for _, detail := range status.Convert(err).Details() {
			if bad, ok := detail.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) > 0 && strings.Contains(bad.GetFieldViolations()[0].GetField(), "path") {
				return
			}
		}
		t.Errorf("%s: the field is not named: %v", name, status.Convert(err).Proto())
	}
	_, err := f.Stat(t.Context(), &filesystemv1.StatRequest{Path: strings.Repeat("x", 4097)})
	check("unary", err)
	if received != 0 {
		t.Error("the handler got the invalid request")
	}
	upload := func() error {
		stream, err := f.Upload(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"a.md", strings.Repeat("x", 4097), "b.md"} {
			message := &filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: &filesystemv1.UploadHeader{Path: path}}}
			if err := stream.Send(message); err != nil && err != io.EOF {
				t.Fatal(err)
			}
		}
		_, err = stream.CloseAndRecv()
		return err
	}
	check("stream", upload())
	if received != 1 {
		t.Errorf("the handler received %d messages, want the valid first one", received)
	}
	swallow = true
	check("stream whose handler says all is well", upload())
}

func TestDeadline(t *testing.T) {
	var deadline time.Time
	var has bool
	f := start(t, &fakefs.Server{
		OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
			deadline, has = ctx.Deadline()
			return &filesystemv1.StatResponse{}, nil
		},
		OnWatch: func(_ *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
			deadline, has = stream.Context().Deadline()
			return nil
		},
	}, func(o *middleware.Options) { o.Timeout = time.Hour })
	if _, err := f.Stat(t.Context(), &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(deadline); !has || left < 59*time.Minute || left > time.Hour {
		t.Errorf("a call without deadline got %v, %v", left, has)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	if _, err := f.Stat(ctx, &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(deadline); left < 90*time.Minute {
		t.Errorf("the caller's own deadline became %v", left)
	}
	stream, err := f.Watch(t.Context(), &filesystemv1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if has {
		t.Errorf("a stream got a deadline in %v", time.Until(deadline))
	}
	other := start(t, &fakefs.Server{OnStat: func(ctx context.Context, _ *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, func(o *middleware.Options) {
		o.Timeouts = map[string]time.Duration{"/gantry.filesystem.v1.FilesystemService/Stat": time.Millisecond}
	})
	if _, err := other.Stat(t.Context(), &filesystemv1.StatRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a handler that waits for ever: %v", err)
	}
}

func TestLogLevels(t *testing.T) {
	var answer error
	f := start(t, &fakefs.Server{OnStat: func(context.Context, *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
		return &filesystemv1.StatResponse{}, answer
	}}, nil)
	want := map[error]string{
		nil: "DEBUG", errdefs.ErrCanceled: "DEBUG", errdefs.ErrInvalidArgument: "INFO", errdefs.ErrNotFound: "INFO", errdefs.ErrAlreadyExists: "INFO",
		errdefs.ErrFailedPrecondition: "INFO", errdefs.ErrAborted: "INFO", errdefs.ErrOutOfRange: "INFO", errdefs.ErrUnimplemented: "INFO",
		errdefs.ErrPermissionDenied: "WARN", errdefs.ErrUnauthenticated: "WARN", errdefs.ErrResourceExhausted: "WARN", errdefs.ErrDeadlineExceeded: "WARN",
		errdefs.ErrUnavailable: "WARN", errdefs.ErrDataLoss: "ERROR", errdefs.ErrInternal: "ERROR",
	}
	for _, class := range append(errdefs.Classes(), nil) {
		answer = class
		_, _ = f.Stat(t.Context(), &filesystemv1.StatRequest{})
		lines := f.log.lines(t)
		if got := lines[len(lines)-1]["level"]; got != want[class] {
			t.Errorf("%v is logged at %v, want %v", class, got, want[class])
		}
	}
}

func TestOrder(t *testing.T) {
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, interceptor := range chain.Interceptors {
		names = append(names, interceptor.Name)
	}
	if got, want := strings.Join(names, ", "), "recover, request id, log, identity, access, deadline, validate, errors"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
	if _, err := middleware.Default(middleware.Options{}); err == nil {
		t.Error("a chain without access checks was made")
	}
}
