package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/ledger"
)

var ana = Caller{Tenant: "acme", Agent: "coder", User: "ana", Session: "s"}

// newPool is a pool that may do everything here, and that ends with the test.
func newPool(t *testing.T, change func(*Config)) *Pool {
	t.Helper()
	cfg := Config{Commands: []string{os.Args[0]}, Private: true, Start: 5 * time.Second, Call: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	p := New(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return p
}

// child declares this test binary as a server of a kind.
func child(t *testing.T, kind string) (definition.Server, *ledger.Ledger) {
	file := filepath.Join(t.TempDir(), "ledger")
	return definition.Server{Name: "ledger", Command: os.Args[0], Env: map[string]string{"MCP_TEST_SERVER": kind, "MCP_TEST_FILE": file}}, ledger.Open(file)
}

// served declares a handler as a server.
func served(t *testing.T, h http.Handler) definition.Server {
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return definition.Server{Name: "ledger", URL: s.URL}
}

// withSessions serves a ledger with a session for each client.
func withSessions(book *ledger.Ledger) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return book.Server() }, nil)
}

func named(t *testing.T, all []tool.Tool, name string) tool.Tool {
	t.Helper()
	for _, one := range all {
		if one.Spec().Name == name {
			return one
		}
	}
	t.Fatalf("there is no %s in %d tools", name, len(all))
	return nil
}

func run(ctx context.Context, one tool.Tool, effect, args string) tool.Result {
	ctx = identity.NewContext(ctx, identity.Identity{Tenant: "acme", User: "ana", Effect: effect})
	return one.Run(ctx, tool.Call{ID: "c", Name: one.Spec().Name, Arguments: json.RawMessage(args)})
}

func TestLedgerOverBothTransports(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			server, book := child(t, "ledger")
			if transport == "http" {
				server = served(t, book.Handler())
			}
			server.Trust = true
			p := newPool(t, nil)
			all, problems := p.Tools(t.Context(), ana, []definition.Server{server})
			if len(problems) != 0 || len(all) != 2 {
				t.Fatalf("%d tools, problems %v", len(all), problems)
			}
			add, total := named(t, all, "mcp__ledger__append"), named(t, all, "mcp__ledger__total")
			if add.Spec().ReadOnly || !total.Spec().ReadOnly || add.Spec().Description != "Book an amount." || !json.Valid(add.Spec().Schema) {
				t.Errorf("the specs are %+v and %+v", add.Spec(), total.Spec())
			}
			if r := run(t.Context(), add, "e1", `{"account":"ana","amount":5,"note":"tea"}`); !r.IsOK() || r.Text != "booked 5 for ana" {
				t.Errorf("append gives %+v", r)
			}
			if r := run(t.Context(), add, "e2", `{"account":"ana","amount":"much"}`); r.IsOK() || r.Reason == "OUTCOME_UNKNOWN" || r.Text == "" {
				t.Errorf("wrong arguments give %+v", r)
			}
			if r := run(t.Context(), total, "e3", `{"account":"ana"}`); !r.IsOK() || r.Data["total"] != 5.0 || !strings.Contains(r.Text, `"total":5`) {
				t.Errorf("total gives %+v", r)
			}
			lines, err := book.Lines()
			if err != nil || len(lines) != 1 || lines[0] != (ledger.Line{Account: "ana", Amount: 5, Note: "tea", Effect: "e1"}) {
				t.Errorf("the ledger has %v, %v", lines, err)
			}
		})
	}
}

// TestACallWithoutAnAnswerIsOfUnknownOutcome: the ledger shows that each of these calls took place, and took place once.
func TestACallWithoutAnAnswerIsOfUnknownOutcome(t *testing.T) {
	dying := func(t *testing.T) (definition.Server, *ledger.Ledger) { // over HTTP
		book := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
		var s *httptest.Server
		book.OnAppend(func(context.Context, ledger.Line) { s.CloseClientConnections() })
		s = httptest.NewServer(book.Handler())
		t.Cleanup(s.Close)
		return definition.Server{Name: "ledger", URL: s.URL}, book
	}
	kind := func(kind string) func(*testing.T) (definition.Server, *ledger.Ledger) {
		return func(t *testing.T) (definition.Server, *ledger.Ledger) { return child(t, kind) }
	}
	for name, c := range map[string]struct {
		make  func(*testing.T) (definition.Server, *ledger.Ledger)
		lines int
	}{
		"it dies in the middle of a call": {kind("mortal"), 1}, "it does not answer": {kind("slow"), 1}, "it answers with nonsense": {kind("garbler"), 0}, "the connection breaks": {dying, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server, book := c.make(t)
			server.Timeout = time.Second
			all, problems := newPool(t, nil).Tools(t.Context(), ana, []definition.Server{server})
			if len(problems) != 0 {
				t.Fatal(problems)
			}
			begun := time.Now()
			r := run(t.Context(), named(t, all, "mcp__ledger__append"), "e1", `{"account":"a","amount":1}`)
			if r.Status != threadv1.ToolStatus_TOOL_STATUS_UNKNOWN || r.Reason != "OUTCOME_UNKNOWN" {
				t.Errorf("the result is %+v", r)
			}
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("it took %s", took)
			}
			if lines, err := book.Lines(); err != nil || len(lines) != c.lines {
				t.Errorf("the ledger has %v, %v", lines, err)
			}
		})
	}
}

func TestAServerThatCantBeUsedIsAProblemAndNoMore(t *testing.T) {
	page := func(answer string) func(*testing.T) definition.Server {
		return func(t *testing.T) definition.Server {
			return served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, answer)
			}))
		}
	}
	kind := func(kind string) func(*testing.T) definition.Server {
		return func(t *testing.T) definition.Server { s, _ := child(t, kind); return s }
	}
	for name, c := range map[string]struct {
		make   func(*testing.T) definition.Server
		change func(*Config)
		want   string
	}{
		"a process that says nothing":   {kind("mute"), nil, "did not answer within 1s"},
		"a process that ends":           {kind("gone"), nil, "can't be used"},
		"a process that babbles":        {kind("babbler"), nil, "can't be used"},
		"a command that nobody allowed": {kind("ledger"), func(c *Config) { c.Commands = []string{"/bin/true", os.Args[0] + " -x"} }, "mcp-commands"},
		"a command that is not there":   {func(*testing.T) definition.Server { return definition.Server{Command: "/no/such"} }, func(c *Config) { c.Commands = []string{"/no/such"} }, "can't be started"},
		"a variable that loads code": {func(*testing.T) definition.Server {
			return definition.Server{Command: os.Args[0], Env: map[string]string{"LD_PRELOAD": "x"}}
		}, nil, "LD_PRELOAD"},
		"no JSON":                          {page("<html>"), nil, "can't be used"},
		"half of an answer":                {page(`{"jsonrpc":"2.0","id":1,"resu`), nil, "can't be used"},
		"an answer without end":            {page(`{"jsonrpc":"2.0","id":1,"x":"` + strings.Repeat("x", maxBody)), nil, "can't be used"},
		"an address that is not public":    {page("{}"), func(c *Config) { c.Private = false }, "127.0.0.1 is not public"},
		"a name of one that is not public": {func(*testing.T) definition.Server { return definition.Server{URL: "http://localhost:1/"} }, func(c *Config) { c.Private = false }, "is not public"},
		"an address that is none":          {func(*testing.T) definition.Server { return definition.Server{URL: "file:///etc/passwd"} }, nil, "none of http or https"},
		"somebody who takes it and is mute": {func(t *testing.T) definition.Server {
			return served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
				<-r.Context().Done()
			}))
		}, nil, "did not answer within 1s"},
		"somebody else's host": {func(t *testing.T) definition.Server {
			other := served(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was called") }))
			return served(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
		}, nil, "redirects to another host"},
	} {
		t.Run(name, func(t *testing.T) {
			good, _ := child(t, "ledger")
			bad := c.make(t)
			good.Name, bad.Name, bad.StartTimeout = "good", "bad", time.Second
			p := newPool(t, func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
					cfg.Commands = append(cfg.Commands, "nothing")
				}
			})
			begun := time.Now()
			all, problems := p.Tools(t.Context(), ana, []definition.Server{bad, good})
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("it took %s", took)
			}
			if len(problems) == 0 || problems[0].Server != "bad" || problems[0].Reason != ReasonUnavailable || !strings.Contains(problems[0].Text, c.want) || !strings.Contains(problems[0].Text, "bad") {
				t.Errorf("problems are %v, want %q", problems, c.want)
			}
			if c.change == nil && len(all) != 2 {
				t.Errorf("the other server has %d tools", len(all))
			}
			begun = time.Now() // the next run does not wait for it again
			if _, again := p.Tools(t.Context(), ana, []definition.Server{bad}); len(again) != 1 || time.Since(begun) > 500*time.Millisecond {
				t.Errorf("then it took %s, problems %v", time.Since(begun), again)
			}
		})
	}
}

func TestAServerOfTenThousandToolsIsCutShort(t *testing.T) {
	many := mcp.NewServer(&mcp.Implementation{Name: "many", Version: "1"}, nil)
	for i := range 10_000 {
		many.AddTool(&mcp.Tool{Name: fmt.Sprintf("t%05d", i), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	server := served(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return many }, nil))
	all, problems := newPool(t, nil).Tools(t.Context(), ana, []definition.Server{server})
	if len(all) != maxTools || len(problems) != 1 || problems[0].Reason != ReasonLeftOut {
		t.Errorf("%d tools, problems %v", len(all), problems)
	}
}

// gate is in front of a server and notes which headers came over which connection and in which session.
type gate struct {
	http.Handler
	mu   sync.Mutex
	seen map[string]map[string]bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	for _, at := range []string{"connection " + r.RemoteAddr, "session " + r.Header.Get("Mcp-Session-Id")} {
		if at != "session " {
			if g.seen[at] == nil {
				g.seen[at] = map[string]bool{}
			}
			g.seen[at][r.Header.Get("Authorization")+r.Header.Get("X-Tenant")] = true
		}
	}
	g.mu.Unlock()
	g.Handler.ServeHTTP(w, r)
}

// TestNobodyUsesAConnectionOfAnother calls one server for two tenants and two users at once, with headers that say who calls.
func TestNobodyUsesAConnectionOfAnother(t *testing.T) {
	book := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
	g := &gate{Handler: withSessions(book), seen: map[string]map[string]bool{}}
	server := served(t, g)
	server.Headers = map[string]string{"Authorization": "Bearer ${attribute.token}", "X-Tenant": "${gantry.tenant}/${gantry.user}"}
	p := newPool(t, nil)
	var work sync.WaitGroup
	for _, tenant := range []string{"acme", "globex"} {
		for _, user := range []string{"ana", "ben", ""} {
			for session := range 2 {
				who := Caller{Tenant: tenant, Agent: "coder", User: user, Session: fmt.Sprint(session), Attributes: map[string]string{"token": tenant + user}}
				work.Go(func() {
					for i := range 5 {
						all, problems := p.Tools(t.Context(), who, []definition.Server{server})
						if len(problems) > 0 {
							t.Error(problems)
							return
						}
						if r := run(t.Context(), named(t, all, "mcp__ledger__append"), "", fmt.Sprintf(`{"account":"a","amount":%d}`, i)); !r.IsOK() {
							t.Errorf("%+v", r)
						}
					}
				})
			}
		}
	}
	work.Wait()
	for at, who := range g.seen {
		if len(who) != 1 {
			t.Errorf("%s carried %v", at, who)
		}
	}
	if lines, err := book.Lines(); err != nil || len(lines) != 60 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != 8 { // two tenants with two users and two sessions of nobody
		t.Errorf("%d connections are open", p.open)
	}
}

// TestASessionThatTheServerForgot is opened again, and the call is made once: the server refused it before.
func TestASessionThatTheServerForgot(t *testing.T) {
	book := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
	var mu sync.Mutex
	old, session := withSessions(book), ""
	handler := old
	server := served(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handler
		if h == old && r.Header.Get("Mcp-Session-Id") != "" {
			session = r.Header.Get("Mcp-Session-Id")
		}
		mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	all, problems := newPool(t, nil).Tools(t.Context(), ana, []definition.Server{server})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	add := named(t, all, "mcp__ledger__append")
	run(t.Context(), add, "e1", `{"account":"a","amount":1}`)
	mu.Lock()
	handler = withSessions(book) // as after a restart
	mu.Unlock()
	end := httptest.NewRequest(http.MethodDelete, "/", nil)
	end.Header.Set("Mcp-Session-Id", session)
	old.ServeHTTP(httptest.NewRecorder(), end)
	if r := run(t.Context(), add, "e2", `{"account":"a","amount":2}`); !r.IsOK() {
		t.Errorf("the call after the restart gives %+v", r)
	}
	if lines, err := book.Lines(); err != nil || len(lines) != 2 || lines[1].Effect != "e2" {
		t.Errorf("the ledger has %v, %v", lines, err)
	}
}

func TestConnectionsAreBoundedAndEndWhenIdle(t *testing.T) {
	book := ledger.Open(filepath.Join(t.TempDir(), "ledger"))
	release := make(chan struct{})
	started := make(chan struct{}, 8)
	book.OnAppend(func(context.Context, ledger.Line) { started <- struct{}{}; <-release })
	server := served(t, withSessions(book))
	p := newPool(t, func(c *Config) { c.MaxConnections, c.Idle = 2, 50*time.Millisecond })
	of := func(tenant string) (tool.Tool, []Problem) {
		all, problems := p.Tools(t.Context(), Caller{Tenant: tenant, Agent: "a"}, []definition.Server{server})
		if len(problems) > 0 {
			return nil, problems
		}
		return named(t, all, "mcp__ledger__append"), nil
	}
	var work sync.WaitGroup
	for _, tenant := range []string{"one", "two"} {
		one, problems := of(tenant)
		if problems != nil {
			t.Fatal(problems)
		}
		work.Go(func() {
			if r := run(t.Context(), one, "", `{"account":"a","amount":1}`); !r.IsOK() {
				t.Errorf("%+v", r)
			}
		})
		<-started
	}
	if _, problems := of("three"); len(problems) != 1 || !strings.Contains(problems[0].Text, "mcp-connections") {
		t.Errorf("a third connection: %v", problems)
	}
	close(release)
	work.Wait()
	if _, problems := of("three"); problems != nil {
		t.Errorf("with room: %v", problems)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open != 0 {
			return fmt.Errorf("%d connections are open", p.open)
		}
		return nil
	})
	one, _ := of("one") // the list is still known, the connection is opened again
	if r := run(t.Context(), one, "", `{"account":"a","amount":1}`); !r.IsOK() {
		t.Errorf("after the idle time: %+v", r)
	}
}

// TestStopEndsWhatServersStarted although the server ignores that it should end, and has a child.
func TestStopEndsWhatServersStarted(t *testing.T) {
	server, _ := child(t, "stubborn")
	p := newPool(t, nil)
	if _, problems := p.Tools(t.Context(), ana, []definition.Server{server}); len(problems) > 0 {
		t.Fatal(problems)
	}
	raw, err := os.ReadFile(server.Env["MCP_TEST_FILE"])
	if err != nil {
		t.Fatal(err)
	}
	var parent, child int
	if _, err := fmt.Sscan(string(raw), &parent, &child); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		for _, pid := range []int{parent, child} {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); syscall.Kill(pid, 0) == nil && (err != nil || !strings.Contains(string(stat), ") Z ")) {
				return fmt.Errorf("process %d lives", pid)
			}
		}
		return nil
	})
	if _, problems := p.Tools(t.Context(), Caller{Tenant: "x"}, []definition.Server{server}); len(problems) != 1 {
		t.Errorf("a stopped pool connects: %v", problems)
	}
}

// TestTheLastListStays when a server can't be asked again; a call then says that it did not take place.
func TestTheLastListStays(t *testing.T) {
	s := httptest.NewServer(ledger.Open(filepath.Join(t.TempDir(), "ledger")).Handler())
	defer s.Close()
	var later atomic.Int64
	p := newPool(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) } })
	server := []definition.Server{{Name: "ledger", URL: s.URL}}
	if all, problems := p.Tools(t.Context(), ana, server); len(all) != 2 || len(problems) != 0 {
		t.Fatal(problems)
	}
	s.CloseClientConnections()
	s.Close()
	// What is written to a connection whose end was not noticed yet counts as sent, rightly; here nothing must be.
	p.mu.Lock()
	for _, e := range p.entries {
		e.session.http.transport.CloseIdleConnections()
	}
	p.mu.Unlock()
	for _, c := range []struct {
		after    time.Duration
		problems int
	}{{0, 0}, {listLife + time.Second, 1}} {
		later.Store(int64(c.after))
		all, problems := p.Tools(t.Context(), ana, server)
		if len(all) != 2 || len(problems) != c.problems {
			t.Fatalf("after %s there are %d tools, problems %v", c.after, len(all), problems)
		}
		if r := run(t.Context(), named(t, all, "mcp__ledger__append"), "e", `{"account":"a","amount":1}`); r.Status != threadv1.ToolStatus_TOOL_STATUS_ERROR || r.Reason == "OUTCOME_UNKNOWN" {
			t.Errorf("a call gives %+v", r)
		}
	}
}

// TestACommandIsFoundFromOurDirectory although the process works in one of its own.
func TestACommandIsFoundFromOurDirectory(t *testing.T) {
	server, _ := child(t, "ledger")
	dir, file := filepath.Split(os.Args[0])
	t.Chdir(dir)
	server.Command = "./" + file
	p := newPool(t, func(c *Config) { c.Commands = []string{server.Command} })
	if all, problems := p.Tools(t.Context(), ana, []definition.Server{server}); len(all) != 2 {
		t.Error(problems)
	}
}

func TestAProcessGetsLittleOfOurEnvironment(t *testing.T) {
	t.Setenv("GANTRY_SECRET_OF_OURS", "s3cret")
	server, _ := child(t, "env")
	server.Env["GIVEN"] = "${ALLOWED}"
	p := newPool(t, func(c *Config) {
		c.Variables, c.Getenv = []string{"ALLOWED"}, func(string) (string, bool) { return "yes", true }
	})
	if _, problems := p.Tools(t.Context(), ana, []definition.Server{server}); len(problems) > 0 {
		t.Fatal(problems)
	}
	raw, err := os.ReadFile(server.Env["MCP_TEST_FILE"])
	if err != nil || strings.Contains(string(raw), "s3cret") || !strings.Contains(string(raw), "GIVEN=yes") {
		t.Errorf("its environment is %s, %v", raw, err)
	}
}
