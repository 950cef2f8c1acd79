package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/obs"
	"github.com/gantry-agents/gantry/libs/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t testing.TB, cfg obs.Config, w io.Writer) *obs.Obs {
	t.Helper()
	o, err := obs.Setup(t.Context(), cfg, "workspace", w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := o.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown = %v", err)
			}
		}
	})
	return o
}

func TestLogLinesKnowTheirCall(t *testing.T) {
	var out bytes.Buffer
	o := setup(t, obs.Config{LogFormat: "json", LogLevel: "warn"}, &out)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := identity.NewContext(trace.ContextWithSpanContext(t.Context(), span), identity.Identity{RequestID: "req-1"})
	o.Logger.InfoContext(ctx, "too quiet")
	o.Logger.With("a", 1).WarnContext(ctx, "loud")
	o.Logger.WarnContext(ctx, "own id", "request_id", "req-2")
	o.Logger.Warn("no call")
	var lines []map[string]any
	for text := range strings.Lines(out.String()) {
		if strings.Count(text, "request_id") > 1 {
			t.Errorf("the id stands twice: %s", text)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3: %s", len(lines), out.String())
	}
	if lines[0]["request_id"] != "req-1" || lines[0]["trace_id"] != span.TraceID().String() || lines[0]["service"] != "workspace" || lines[0]["a"] != 1.0 {
		t.Errorf("line %v", lines[0])
	}
	if lines[1]["request_id"] != "req-2" || lines[2]["request_id"] != nil {
		t.Errorf("lines %v", lines[1:])
	}
}

func TestTextFormatIsTheDefault(t *testing.T) {
	var out bytes.Buffer
	o := setup(t, obs.Config{}, &out)
	o.Logger.Debug("quiet")
	o.Logger.Info("hello")
	if text := out.String(); !strings.Contains(text, "msg=hello") || strings.Contains(text, "quiet") {
		t.Errorf("log %q", text)
	}
}

func TestBadSettings(t *testing.T) {
	for name, cfg := range map[string]obs.Config{"level": {LogLevel: "loud"}, "format": {LogFormat: "xml"}, "ratio": {TraceRatio: 2}} {
		if _, err := obs.Setup(t.Context(), cfg, "x", io.Discard); err == nil {
			t.Errorf("%s: Setup succeeded", name)
		}
	}
}

// collector is a trace back end that notes what it gets.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	got chan *collectorpb.ExportTraceServiceRequest
}

func (c *collector) Export(_ context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.got <- r
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// TestOneTraceOverAHopAndMetrics makes a call with two set-ups, as two processes have, and looks at what operators see.
func TestOneTraceOverAHopAndMetrics(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back := &collector{got: make(chan *collectorpb.ExportTraceServiceRequest, 10)}
	backServer := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(backServer, back)
	go backServer.Serve(l)
	t.Cleanup(backServer.Stop)

	cfg := obs.Config{OTLPEndpoint: "http://" + l.Addr().String(), TraceRatio: 1}
	caller, callee := setup(t, cfg, io.Discard), setup(t, cfg, io.Discard)
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth, Stats: callee.ServerStats()})
	if err != nil {
		t.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:x"}, chain, network)
	if err != nil {
		t.Fatal(err)
	}
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), fakefs.Echo())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial("memory:x", network, caller.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := caller.Tracers.Tracer(obs.ScopeName).Start(t.Context(), "work")
	if _, err := filesystemv1.NewFilesystemServiceClient(conn).Stat(ctx, &filesystemv1.StatRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	span.End()
	conn.Close()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	recorder := httptest.NewRecorder()
	callee.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	body := recorder.Body.String()
	for _, want := range []string{"gantry_info{", `service="workspace"`, "rpc_server", "go_goroutines", "gantry.filesystem.v1.FilesystemService"} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if strings.Contains(body, "grpc.health") {
		t.Error("health checks are counted")
	}

	for _, o := range []*obs.Obs{caller, callee} {
		if err := o.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(back.got)
	names := map[string]bool{}
	traceID := span.SpanContext().TraceID()
	for request := range back.got {
		for _, r := range request.GetResourceSpans() {
			for _, scope := range r.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					if string(s.GetTraceId()) != string(traceID[:]) {
						t.Errorf("span %q is of another trace", s.GetName())
					}
					names[s.GetKind().String()+" "+s.GetName()] = true
				}
			}
		}
	}
	const method = "gantry.filesystem.v1.FilesystemService/Stat"
	if len(names) != 3 || !names["SPAN_KIND_INTERNAL work"] || !names["SPAN_KIND_CLIENT "+method] || !names["SPAN_KIND_SERVER "+method] {
		t.Errorf("spans %v", names)
	}
}
