package orchestrator_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc/metadata"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/ledger"
)

const bookScript = `
turns:
  - {always: true, when: {user: "^book", tool: mcp__ledger__append}, text: "It is booked."}
  - {always: true, when: {user: "^book"}, calls: [{name: mcp__ledger__append, arguments: {account: ana, amount: 5}}]}
`

// booking is a cluster whose agent has the ledger as an MCP server, over HTTP.
type booking struct {
	*orchestratortest.Cluster
	ledger *ledger.Ledger
	server *httptest.Server
}

// newBooking makes a cluster; extra are lines of agent.yaml.
func newBooking(t *testing.T, extra map[string]any, auth access.Config) *booking {
	t.Helper()
	b := &booking{Cluster: orchestratortest.NewCluster(t, bookScript, auth), ledger: ledger.Open(filepath.Join(t.TempDir(), "ledger"))}
	b.server = httptest.NewServer(b.ledger.Handler())
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
	})
	settings, err := structpb.NewStruct(extra)
	if err != nil {
		t.Fatal(err)
	}
	yaml, err := settings.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	b.Workspace.Template(identity.DefaultTenant, identity.DefaultAgent, map[string]string{
		"tools.json": fmt.Sprintf(`{"mcpServers":{"ledger":{"url":%q}}}`, b.server.URL), "agent.yaml": string(yaml),
	})
	return b
}

// replica starts one that may reach the test's server.
func (b *booking) replica() *orchestratortest.Replica {
	return b.Start(func(cfg *orchestrator.Config) { cfg.MCPPrivate, cfg.MCPStartTimeout = true, 2*time.Second })
}

func (b *booking) lines(t *testing.T) []ledger.Line {
	t.Helper()
	lines, err := b.ledger.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func callWith(t *testing.T, ctx context.Context, r *orchestratortest.Replica, in *orchestratorv1.RunInput) *orchestratorv1.Run {
	t.Helper()
	resp, err := orchestratorv1.NewRunServiceClient(r.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: in})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRun()
}

func answer(t *testing.T, ctx context.Context, r *orchestratortest.Replica, run *orchestratorv1.Run, decision string) {
	t.Helper()
	_, err := orchestratorv1.NewRunServiceClient(r.Conn).ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{
		Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: run.GetInteractions()[0].GetId(), Decision: decision}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// toolResult is the result of the only call of a run.
func toolResult(events []*threadv1.Event) *threadv1.ToolResult {
	for _, ev := range events {
		if e := ev.GetPayload().GetToolEnded(); e != nil {
			return e.GetResult()
		}
	}
	return nil
}

func TestARunCallsAnMCPTool(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		rules  []string
		deny   []string
		answer string // where somebody is asked
		lines  int
		status threadv1.ToolStatus
	}{
		"calls to the outside ask":  {"", nil, nil, "approve", 1, threadv1.ToolStatus_TOOL_STATUS_OK},
		"and may be refused":        {"", nil, nil, "deny", 0, threadv1.ToolStatus_TOOL_STATUS_DENIED},
		"an allow rule answers":     {"", []string{"allow mcp__ledger__append"}, nil, "", 1, threadv1.ToolStatus_TOOL_STATUS_OK},
		"for all of a server":       {"", []string{"allow mcp__ledger__*"}, nil, "", 1, threadv1.ToolStatus_TOOL_STATUS_OK},
		"a deny rule wins":          {"bypass", []string{"allow *", "deny mcp__ledger__*"}, nil, "", 0, threadv1.ToolStatus_TOOL_STATUS_DENIED},
		"an ask rule asks":          {"", []string{"allow *", "ask mcp__ledger__append"}, nil, "approve", 1, threadv1.ToolStatus_TOOL_STATUS_OK},
		"explore changes nothing":   {"explore", nil, nil, "", 0, threadv1.ToolStatus_TOOL_STATUS_DENIED},
		"bypass does not ask":       {"bypass", nil, nil, "", 1, threadv1.ToolStatus_TOOL_STATUS_OK},
		"a list takes the tool off": {"bypass", nil, []string{"append"}, "", 0, threadv1.ToolStatus_TOOL_STATUS_ERROR},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooking(t, map[string]any{"policy_mode": c.mode}, access.Config{})
			r, ctx := b.replica(), ctxOf(t, "ana", "s")
			run := callWith(t, ctx, r, &orchestratorv1.RunInput{Text: "book", Spec: &orchestratorv1.AgentSpec{PolicyRules: c.rules, DenyTools: c.deny}})
			if asked := len(run.GetInteractions()) == 1; asked != (c.answer != "") {
				t.Fatalf("the run is %v", run)
			}
			if c.answer != "" {
				if n := len(b.lines(t)); n != 0 {
					t.Errorf("%d lines before the answer", n)
				}
				answer(t, ctx, r, run, c.answer)
			}
			events, end := watch(t, ctx, r, run.GetId())
			if end.GetOutcome() != "completed" || toolResult(events).GetStatus() != c.status {
				t.Errorf("the end is %v, the result %v", end, toolResult(events))
			}
			lines := b.lines(t)
			if len(lines) != c.lines || c.lines == 1 && lines[0].Effect == "" {
				t.Errorf("the ledger has %v", lines)
			}
		})
	}
}

// TestAnMCPServerThatIsDownIsANotice: the run goes on without its tools, and says so.
func TestAnMCPServerThatIsDownIsANotice(t *testing.T) {
	b := newBooking(t, nil, access.Config{})
	b.server.Close()
	r, ctx := b.replica(), ctxOf(t, "ana", "s")
	run := callWith(t, ctx, r, &orchestratorv1.RunInput{Text: "book"})
	events, end := watch(t, ctx, r, run.GetId())
	var notice *threadv1.NoticeShown
	for _, ev := range events {
		if n := ev.GetPayload().GetNoticeShown(); n.GetReason() == "MCP_SERVER_UNAVAILABLE" {
			notice = n
		}
	}
	if end.GetOutcome() != "completed" || !strings.Contains(notice.GetText(), "ledger") || toolResult(events).GetReason() != "TOOL_UNKNOWN" {
		t.Errorf("the end is %v, the notice %v", end, notice)
	}
}

// TestUnknownOutcome kills the replica after the server has booked and before it has answered. Whatever is set, nothing books twice by itself but retry.
func TestUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		setting, perCall string
		answer           string
		outcome, reason  string
		lines            int
		status           threadv1.ToolStatus
	}{
		"a person is asked and skips":   {"", "", "skip", "completed", "done", 1, threadv1.ToolStatus_TOOL_STATUS_UNKNOWN},
		"a person is asked and retries": {"ask", "", "retry", "completed", "done", 2, threadv1.ToolStatus_TOOL_STATUS_OK},
		"a person is asked and fails":   {"ask", "", "fail", "failed", "refused_by_person", 1, 0},
		"skip":                          {"skip", "", "", "completed", "done", 1, threadv1.ToolStatus_TOOL_STATUS_UNKNOWN},
		"retry":                         {"retry", "", "", "completed", "done", 2, threadv1.ToolStatus_TOOL_STATUS_OK},
		"fail":                          {"fail", "", "", "failed", "outcome_unknown", 1, 0},
		"the call's setting goes first": {"retry", "skip", "", "completed", "done", 1, threadv1.ToolStatus_TOOL_STATUS_UNKNOWN},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooking(t, map[string]any{"unknown_outcome": c.setting, "policy_mode": "bypass"}, access.Config{})
			booked, release := make(chan struct{}), make(chan struct{})
			var times atomic.Int32
			b.ledger.OnAppend(func(context.Context, ledger.Line) {
				if times.Add(1) == 1 {
					close(booked)
					<-release
				}
			})
			first, second := b.replica(), b.replica()
			ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
			resp, err := orchestratorv1.NewRunServiceClient(first.Conn).StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{
				Text: "book", Spec: &orchestratorv1.AgentSpec{UnknownOutcome: c.perCall},
			}})
			if err != nil {
				t.Fatal(err)
			}
			<-booked
			first.Kill()
			defer close(release)
			asked := hasEvent(t, b.Cluster, key, "interaction/requested").GetPayload().GetInteractionRequested().GetInteraction()
			if asked.GetKind() != "outcome_unknown" || len(b.lines(t)) != 1 && c.setting != "retry" {
				t.Errorf("asked is %v, the ledger has %v", asked, b.lines(t))
			}
			if c.answer != "" {
				hasEvent(t, b.Cluster, key, "run/ended") // suspended
				answer(t, ctx, second, &orchestratorv1.Run{Interactions: []*threadv1.Interaction{asked}}, c.answer)
			}
			hasEvent(t, b.Cluster, key, "interaction/resolved")
			events, end := watchToTheEnd(t, ctx, second, resp.GetRun().GetId())
			if end.GetOutcome() != c.outcome || end.GetRun().GetReason() != c.reason || toolResult(events).GetStatus() != c.status {
				t.Errorf("the end is %v, the result %v", end, toolResult(events))
			}
			lines := b.lines(t)
			if len(lines) != c.lines || c.lines == 2 && lines[0].Effect == lines[1].Effect {
				t.Errorf("the ledger has %v", lines)
			}
			for _, ev := range events {
				if p := ev.GetPayload().GetInteractionResolved(); p != nil && (p.GetActor() == "setting unknown_outcome") != (c.answer == "") {
					t.Errorf("it was resolved by %q", p.GetActor())
				}
			}
		})
	}
}

// watchToTheEnd attaches until the run has ended for good: a stream ends with a suspension too.
func watchToTheEnd(t *testing.T, ctx context.Context, r *orchestratortest.Replica, run string) (events []*threadv1.Event, end *orchestratorv1.RunTerminal) {
	t.Helper()
	for ctx.Err() == nil {
		if events, end = watch(t, ctx, r, run); end.GetOutcome() != "suspended" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return events, end
}

// TestAServerThatDropsItsAnswerAsksToo although nobody was killed, and a retry ends when it does so again.
func TestAServerThatDropsItsAnswerAsksToo(t *testing.T) {
	for name, want := range map[string]int{"ask": 1, "retry": 3, "skip": 1} {
		t.Run(name, func(t *testing.T) {
			b := newBooking(t, map[string]any{"unknown_outcome": name, "policy_mode": "bypass"}, access.Config{})
			b.ledger.OnAppend(func(context.Context, ledger.Line) { b.server.CloseClientConnections() })
			r, ctx := b.replica(), ctxOf(t, "ana", "s")
			run := callWith(t, ctx, r, &orchestratorv1.RunInput{Text: "book"})
			if suspended := run.GetState() == threadv1.RunState_RUN_STATE_SUSPENDED; suspended != (name != "skip") || len(b.lines(t)) != want {
				t.Errorf("the run is %v, the ledger has %v", run, b.lines(t))
			}
			if name == "skip" {
				return
			}
			if i := run.GetInteractions(); len(i) != 1 || i[0].GetKind() != "outcome_unknown" {
				t.Errorf("the interactions are %v", i)
			}
		})
	}
}

// TestWhoMayNameServers: servers of a call need agent.define, and those of a bucket are never used.
func TestWhoMayNameServers(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	b := newBooking(t, map[string]any{"policy_mode": "bypass"}, access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: secret})
	b.Workspace.Template(identity.DefaultTenant, identity.DefaultAgent, map[string]string{"agent.yaml": `{"policy_mode":"bypass"}`})
	r := b.replica()
	servers, err := structpb.NewStruct(map[string]any{"ledger": map[string]any{"url": b.server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	as := func(verbs ...string) error {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, access.ClientClaims{
			RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))},
			Tenant:           identity.DefaultTenant, User: "ana", Verbs: verbs, Agents: []string{"*"},
		})
		signed, err := token.SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(ctxOf(t, "ana", "s"), "authorization", "Bearer "+signed)
		_, err = orchestratorv1.NewRunServiceClient(r.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{
			Text: "book", Spec: &orchestratorv1.AgentSpec{McpServers: servers},
		}})
		return err
	}
	if err := as("run.write", "run.read"); errdefs.ClassOf(err) != errdefs.ErrPermissionDenied || len(b.lines(t)) != 0 {
		t.Errorf("without the claim: %v, the ledger has %v", err, b.lines(t))
	}
	if err := as("run.write", "run.read", "agent.define"); err != nil || len(b.lines(t)) != 1 {
		t.Errorf("with it: %v, the ledger has %v", err, b.lines(t))
	}
}
