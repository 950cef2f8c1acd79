package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/inproc"
)

// files answers with what reached it, so that tests see what passed through.
type files struct {
	fsv1.UnimplementedFilesystemServiceServer
}

func (files) Stat(ctx context.Context, req *fsv1.StatRequest) (*fsv1.StatResponse, error) {
	if req.GetPath() == "missing" {
		return nil, errgrpc.ToStatus(errdefs.New(errdefs.ErrNotFound, "gantry.filesystem.v1", "PATH_NOT_FOUND", "there is no missing").With("path", "missing"))
	}
	md, _ := metadata.FromIncomingContext(ctx)
	var seen []string
	for _, key := range []string{"gantry-user", "gantry-agent", "authorization", "x-secret", "cookie"} {
		seen = append(seen, key+"="+strings.Join(md.Get(key), ","))
	}
	if err := grpc.SetHeader(ctx, metadata.Pairs("gantry-request-id", "r1", "x-internal", "no")); err != nil {
		return nil, err
	}
	return &fsv1.StatResponse{Info: &fsv1.FileInfo{Path: strings.Join(seen, ";")}}, nil
}

func (files) Grep(req *fsv1.GrepRequest, out grpc.ServerStreamingServer[fsv1.GrepResponse]) error {
	for i := range 2 {
		if err := out.Send(&fsv1.GrepResponse{Result: &fsv1.GrepResponse_Match{Match: &fsv1.Match{Line: int64(i + 1), Text: "a\nb"}}}); err != nil {
			return err
		}
	}
	if req.GetPattern() == "break" {
		return errgrpc.ToStatus(errdefs.New(errdefs.ErrUnavailable, "gantry.filesystem.v1", "STORE_DOWN", "the store went away"))
	}
	return out.Send(&fsv1.GrepResponse{Result: &fsv1.GrepResponse_End{End: &fsv1.GrepEnd{Matches: 2}}})
}

func (files) Write(_ context.Context, req *fsv1.WriteRequest) (*fsv1.WriteResponse, error) {
	return &fsv1.WriteResponse{Info: &fsv1.FileInfo{SizeBytes: int64(len(req.GetContent()))}}, nil
}

func start(t *testing.T) *httptest.Server {
	t.Helper()
	network := inproc.New()
	ln, err := network.Listen("up")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	fsv1.RegisterFilesystemServiceServer(server, files{})
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	conn, err := client.Dial("memory:up", network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	handler, err := Handler(t.Context(), Config{Address: "127.0.0.1:0", AllowedOrigins: []string{"https://app.example.org"}, AllowedHosts: []string{"gantry.example.org"}, MaxRequestBytes: 1 << 20},
		Upstream{conn, conn, conn, conn, conn, conn})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return web
}

func do(t *testing.T, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return req
}

func TestIdentityPassesAndNothingElseDoes(t *testing.T) {
	web := start(t)
	code, header, body := do(t, request(t, "GET", web.URL+"/v1/fs:stat?path=a", "", "Gantry-User", "ana%20b", "Authorization", "Bearer t", "X-Secret", "s", "Cookie", "c=1", "Grpc-Metadata-Gantry-Agent", "evil"))
	if code != 200 || !strings.Contains(body, "gantry-user=ana%20b;gantry-agent=;authorization=Bearer t;x-secret=;cookie=") {
		t.Errorf("%d %s", code, body)
	}
	if header.Get("Gantry-Request-Id") != "r1" || header.Get("X-Internal") != "" || header.Get("Grpc-Metadata-X-Internal") != "" {
		t.Errorf("headers = %v", header)
	}
}

func TestErrorsHaveCodeAndReason(t *testing.T) {
	web := start(t)
	tests := []struct {
		name, method, path, body, contains string
		code                               int
	}{
		{"an error of the service", "GET", "/v1/fs:stat?path=missing", "", `"reason":"PATH_NOT_FOUND"`, 404},
		{"a field that nobody knows", "PUT", "/v1/fs:write", `{"path":"a","contents":"eA=="}`, `"reason":"REQUEST_UNREADABLE"`, 400},
		{"a query that nobody knows", "GET", "/v1/fs:stat?pth=a", "", "", 200}, // query parameters of others are passed over, as HTTP does
		{"no JSON", "PUT", "/v1/fs:write", `{`, `"reason":"REQUEST_UNREADABLE"`, 400},
		{"a path that is no call", "GET", "/v1/nothing", "", `"reason":"NO_SUCH_CALL"`, 404},
		{"a method that is not served", "DELETE", "/v1/fs:stat", "", `"reason":"METHOD_NOT_ALLOWED"`, 405},
		{"not implemented", "GET", "/v1/fs:usage", "", `"code":12`, 501},
		{"a body that is too large", "PUT", "/v1/fs:write", `{"path":"a","content":"` + strings.Repeat("A", 2<<20) + `"}`, `"reason":"BODY_TOO_LARGE"`, 429},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, body := do(t, request(t, tt.method, web.URL+tt.path, tt.body))
			if code != tt.code || !strings.Contains(strings.ReplaceAll(body, `": "`, `":"`), tt.contains) {
				t.Errorf("%d %.300s, want %d and %s", code, body, tt.code, tt.contains)
			}
		})
	}
}

func TestStreamsAsLinesAndAsEvents(t *testing.T) {
	web := start(t)
	code, header, body := do(t, request(t, "POST", web.URL+"/v1/fs:grep", `{"pattern":"x"}`))
	var lines []map[string]any
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatalf("line %q: %v", s.Text(), err)
		}
		lines = append(lines, line)
	}
	if code != 200 || len(lines) != 3 || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		t.Fatalf("%d %v %q", code, header, body)
	}
	if end, ok := lines[2]["result"].(map[string]any)["end"]; !ok {
		t.Errorf("the last line is %v, want the end message: %v", lines[2], end)
	}
	_, header, body = do(t, request(t, "POST", web.URL+"/v1/fs:grep", `{"pattern":"x"}`, "Accept", "text/event-stream", "Content-Type", "application/json"))
	events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if header.Get("Content-Type") != "text/event-stream" || len(events) != 3 {
		t.Fatalf("%v %q", header.Get("Content-Type"), body)
	}
	for _, e := range events {
		if !strings.HasPrefix(e, "data: {") || strings.Contains(e, "\n") {
			t.Errorf("event = %q", e)
		}
	}
}

func TestAStreamThatFailsEndsWithItsError(t *testing.T) {
	web := start(t)
	_, _, body := do(t, request(t, "POST", web.URL+"/v1/fs:grep", `{"pattern":"break"}`))
	lines := strings.Split(strings.TrimSpace(body), "\n")
	var last struct {
		Error struct {
			Code    int              `json:"code"`
			Details []map[string]any `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last.Error.Code != 14 || len(last.Error.Details) == 0 || last.Error.Details[0]["reason"] != "STORE_DOWN" {
		t.Errorf("last line = %s", lines[len(lines)-1])
	}
}

func TestBrowsersOfOtherPagesAreRefused(t *testing.T) {
	web := start(t)
	host := strings.TrimPrefix(web.URL, "http://")
	tests := []struct {
		name, host, origin, site string
		code                     int
	}{
		{"a program", host, "", "", 200},
		{"localhost", "localhost:7400", "", "", 200},
		{"a name that the operator allows", "gantry.example.org", "", "", 200},
		{"a foreign name that points here", "evil.example.com", "", "", 421},
		{"a page of another origin", host, "https://evil.example.com", "cross-site", 403},
		{"an old browser that says only the origin", host, "https://evil.example.com", "", 403},
		{"a page that the operator allows", host, "https://app.example.org", "cross-site", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t, "PUT", web.URL+"/v1/fs:write", `{"path":"a"}`)
			req.Host = tt.host
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			if tt.site != "" {
				req.Header.Set("Sec-Fetch-Site", tt.site)
			}
			code, header, body := do(t, req)
			if code != tt.code {
				t.Errorf("%d %s, want %d", code, body, tt.code)
			}
			if allow := header.Get("Access-Control-Allow-Origin"); (allow != "") != (tt.origin == "https://app.example.org") {
				t.Errorf("allows origin %q", allow)
			}
		})
	}
}

func TestOpenAPIDescribesWhatIsServed(t *testing.T) {
	web := start(t)
	code, _, body := do(t, request(t, "GET", web.URL+"/openapi.json", ""))
	var doc struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil || code != 200 {
		t.Fatal(code, err)
	}
	for _, p := range []string{"/v1/fs:grep", "/v1/runs:stream", "/v1/memory:search", "/v1/tasks", "/v1/sandboxes:run"} {
		if _, ok := doc.Paths[p]; !ok {
			t.Errorf("%s is not described", p)
		}
	}
	if code, _, body := do(t, request(t, "GET", web.URL+"/docs/", "")); code != 200 || !strings.Contains(body, "/openapi.json") || strings.Contains(body, `src="http`) {
		t.Errorf("docs: %d; it must need no other host", code)
	}
}

// TestRESTCoversEveryRPCOfClients holds the rule of the design: what a client may call has a REST form, what is internal has none.
func TestRESTCoversEveryRPCOfClients(t *testing.T) {
	count := 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			if !strings.HasPrefix(string(service.FullName()), "gantry.") {
				continue
			}
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				access := proto.GetExtension(m.Options(), commonv1.E_Access).(*commonv1.Access)
				has := proto.HasExtension(m.Options(), annotations.E_Http)
				count++
				switch access.GetAudience() {
				case commonv1.Audience_AUDIENCE_CLIENT, commonv1.Audience_AUDIENCE_PUBLIC:
					if !has {
						t.Errorf("%s may be called by clients and has no REST form", m.FullName())
					}
				case commonv1.Audience_AUDIENCE_INTERNAL:
					if has {
						t.Errorf("%s is internal and has a REST form", m.FullName())
					}
				default:
					t.Errorf("%s does not say who may call it", m.FullName())
				}
			}
		}
		return true
	})
	if count < 100 {
		t.Errorf("only %d RPCs were looked at", count)
	}
}
