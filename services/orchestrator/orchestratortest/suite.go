package orchestratortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Target is an orchestrator to test.
type Target struct {
	// Conn leads to it, with the identity of the context and errors of package errdefs, as connections of package client do.
	Conn grpc.ClientConnInterface
	// NoTasks says that it has no task service: cases of subagents are left out.
	NoTasks bool
}

// caseTimeout bounds one case.
const caseTimeout = 60 * time.Second

// Run runs the suite, or only some of its groups. make gives the target of one case; it may be the same for all.
func Run(t testkit.T, make func(testkit.T) Target, only ...string) {
	for _, group := range []struct {
		name  string
		cases map[string]func(testkit.T, *kit)
	}{
		{"stream", streamCases}, {"start", startCases}, {"busy", busyCases}, {"stop", stopCases}, {"ask", askCases}, {"tools", toolCases}, {"limits", limitCases},
		{"models", modelCases}, {"threads", threadCases}, {"travel", travelCases}, {"agents", agentCases}, {"isolation", isolationCases}, {"children", childCases}, {"later", laterCases},
	} {
		if len(only) > 0 && !slices.Contains(only, group.name) {
			continue
		}
		t.Run(group.name, func(t testkit.T) {
			for _, name := range names(group.cases) {
				t.Run(name, func(t testkit.T) {
					target := make(t)
					if group.name == "children" && target.NoTasks {
						t.Skip("the target has no task service")
					}
					group.cases[name](t, newKit(target))
				})
			}
		})
	}
}

func names(cases map[string]func(testkit.T, *kit)) []string {
	var out []string
	for name := range cases {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// kit is what a case works with.
type kit struct {
	runs    orchestratorv1.RunServiceClient
	agents  orchestratorv1.AgentServiceClient
	threads orchestratorv1.ThreadAdminServiceClient
	skills  orchestratorv1.SkillServiceClient
	train   orchestratorv1.TrainingServiceClient
}

func newKit(target Target) *kit {
	return &kit{
		runs: orchestratorv1.NewRunServiceClient(target.Conn), agents: orchestratorv1.NewAgentServiceClient(target.Conn), threads: orchestratorv1.NewThreadAdminServiceClient(target.Conn),
		skills: orchestratorv1.NewSkillServiceClient(target.Conn), train: orchestratorv1.NewTrainingServiceClient(target.Conn),
	}
}

var fresh atomic.Int64

// ctx is a call of a user on a thread that nobody has used.
func (k *kit) ctx(t testkit.T) context.Context {
	n := fresh.Add(1)
	return k.as(t, identity.Identity{User: fmt.Sprintf("user-%d-%d", time.Now().UnixNano(), n), Session: fmt.Sprintf("s-%d", n)})
}

func (k *kit) as(t testkit.T, id identity.Identity) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), caseTimeout)
	t.Cleanup(cancel)
	return identity.NewContext(ctx, id)
}

func text(s string) *orchestratorv1.RunInput { return &orchestratorv1.RunInput{Text: s} }

// call runs an input to its end.
func (k *kit) call(t testkit.T, ctx context.Context, in *orchestratorv1.RunInput) *orchestratorv1.Run {
	t.Helper()
	resp, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: in})
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	return resp.GetRun()
}

// receiver is a stream of run events.
type receiver interface {
	Recv() (*orchestratorv1.RunEvent, error)
}

type streamed struct {
	grpc.ServerStreamingClient[orchestratorv1.StreamAgentResponse]
}

func (s streamed) Recv() (*orchestratorv1.RunEvent, error) {
	m, err := s.ServerStreamingClient.Recv()
	return m.GetEvent(), err
}

type attached struct {
	grpc.ServerStreamingClient[orchestratorv1.AttachRunResponse]
}

func (s attached) Recv() (*orchestratorv1.RunEvent, error) {
	m, err := s.ServerStreamingClient.Recv()
	return m.GetEvent(), err
}

func (k *kit) stream(t testkit.T, ctx context.Context, in *orchestratorv1.RunInput) receiver {
	t.Helper()
	s, err := k.runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: in})
	if err != nil {
		t.Fatalf("stream: %v", err)
	}
	return streamed{s}
}

func (k *kit) attach(t testkit.T, ctx context.Context, run string, after int64) receiver {
	t.Helper()
	s, err := k.runs.AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: run, AfterSeq: after})
	if err != nil {
		t.Fatalf("attach: %v", err)
	}
	return attached{s}
}

// record is a stream that was read to its end.
type record struct {
	events   []*threadv1.Event
	deltas   []*orchestratorv1.TextDelta
	terminal *orchestratorv1.RunTerminal
}

// read reads a stream to its end and checks what holds for each: rising sequences, one terminal message, the last one.
func read(t testkit.T, s receiver) record {
	t.Helper()
	var r record
	for {
		ev, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		r.add(t, ev)
	}
	if r.terminal == nil {
		t.Fatalf("the stream ended without a terminal message")
	}
	return r
}

func (r *record) add(t testkit.T, ev *orchestratorv1.RunEvent) {
	t.Helper()
	if r.terminal != nil {
		t.Errorf("after the terminal message comes %v", ev)
	}
	switch item := ev.GetItem().(type) {
	case *orchestratorv1.RunEvent_Event:
		if n := len(r.events); n > 0 && item.Event.GetSeq() <= r.events[n-1].GetSeq() {
			t.Errorf("event %d comes after %d", item.Event.GetSeq(), r.events[n-1].GetSeq())
		}
		r.events = append(r.events, item.Event)
	case *orchestratorv1.RunEvent_Delta:
		r.deltas = append(r.deltas, item.Delta)
	case *orchestratorv1.RunEvent_Terminal:
		r.terminal = item.Terminal
	}
}

// until reads a stream until an event of a type came.
func until(t testkit.T, s receiver, kind string) *threadv1.Event {
	t.Helper()
	for {
		ev, err := s.Recv()
		if err != nil {
			t.Fatalf("before %s: %v", kind, err)
		}
		if ev.GetEvent().GetType() == kind {
			return ev.GetEvent()
		}
		if ev.GetTerminal() != nil {
			t.Fatalf("before %s the run ended: %v", kind, ev.GetTerminal())
		}
	}
}

// types lists the types of events.
func (r record) types() []string {
	var out []string
	for _, ev := range r.events {
		out = append(out, ev.GetType())
	}
	return out
}

// results lists the results of tools in a record.
func (r record) results() []*threadv1.ToolResult {
	var out []*threadv1.ToolResult
	for _, ev := range r.events {
		if e := ev.GetPayload().GetToolEnded(); e != nil {
			out = append(out, e.GetResult())
		}
	}
	return out
}

func wantState(t testkit.T, r *orchestratorv1.Run, state threadv1.RunState, reason string) {
	t.Helper()
	if r.GetState() != state || r.GetReason() != reason {
		t.Errorf("the run is %v, %q (%s), want %v, %q", r.GetState(), r.GetReason(), r.GetMessage(), state, reason)
	}
}

func wantError(t testkit.T, err, class error, reason string) {
	t.Helper()
	if !errors.Is(err, class) || errdefs.ReasonOf(err) != reason {
		t.Errorf("the error is %v (%v, %s), want %v, %s", err, errdefs.ClassOf(err), errdefs.ReasonOf(err), class, reason)
	}
}

func same(t testkit.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}
