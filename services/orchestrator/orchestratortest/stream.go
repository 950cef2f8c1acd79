package orchestratortest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

const (
	completed = threadv1.RunState_RUN_STATE_COMPLETED
	failed    = threadv1.RunState_RUN_STATE_FAILED
	suspended = threadv1.RunState_RUN_STATE_SUSPENDED
	cancelled = threadv1.RunState_RUN_STATE_CANCELLED
)

var streamCases = map[string]func(testkit.T, *kit){
	"order of a plain answer":           testOrder,
	"order of a step with a tool":       testToolOrder,
	"it streams while the model speaks": testReallyStreams,
	"resume at every sequence":          testResume,
	"attach in the middle of an answer": testAttachMidway,
	"many watchers see the same":        testWatchers,
	"attach to what is not there":       testAttachNothing,
	"the watcher leaves, the run stays": testLeave,
	"cancel on disconnect":              testCancelOnDisconnect,
}

func testOrder(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := read(t, k.stream(t, ctx, text("hello")))
	same(t, "order", []string{"run/started", "input/received", "step/started", "request/prepared", "model/dispatched", "model/ended", "run/ended"}, r.types())
	said, thought := "", ""
	for _, d := range r.deltas {
		into := &said
		if d.GetThinking() {
			into = &thought
		}
		if int(d.GetOffsetBytes()) != len(*into) {
			t.Errorf("a delta at %d follows %d bytes", d.GetOffsetBytes(), len(*into))
		}
		*into += d.GetText()
	}
	const want = "Hello to you, whoever you are, wherever you are."
	if said != want || thought != "somebody greets" || r.terminal.GetRun().GetText() != want {
		t.Errorf("deltas say %q and %q, the run %q", said, thought, r.terminal.GetRun().GetText())
	}
	if len(r.deltas) < 5 {
		t.Errorf("the answer came in %d pieces", len(r.deltas))
	}
	if r.terminal.GetOutcome() != "completed" {
		t.Errorf("the outcome is %q", r.terminal.GetOutcome())
	}
	run := r.terminal.GetRun()
	wantState(t, run, completed, "done")
	if run.GetSteps() != 1 || run.GetUsage().GetRequests() != 1 || run.GetUsage().GetOutputTokens() == 0 || run.GetModel() == "" || run.GetStartTime() == nil || run.GetEndTime() == nil {
		t.Errorf("the run says too little: %v", run)
	}
	got, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: run.GetId()})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	same(t, "run", run, got.GetRun())
}

func testToolOrder(t testkit.T, k *kit) {
	r := read(t, k.stream(t, k.ctx(t), text("keep it")))
	same(t, "order", []string{
		"run/started", "input/received",
		"step/started", "request/prepared", "model/dispatched", "model/ended", "tool/requested", "tool/decided", "tool/dispatched", "tool/ended",
		"step/started", "request/prepared", "model/dispatched", "model/ended", "run/ended",
	}, r.types())
	wantState(t, r.terminal.GetRun(), completed, "done")
	for _, ev := range r.events {
		if d := ev.GetPayload().GetToolDispatched(); d != nil && (d.GetEffect() == "" || d.GetEffectKind() != "files") {
			t.Errorf("the dispatch has effect %q of kind %q", d.GetEffect(), d.GetEffectKind())
		}
	}
}

func testReallyStreams(t testkit.T, k *kit) {
	s := k.stream(t, k.ctx(t), text("slow"))
	var first, last time.Time
	for {
		ev, err := s.Recv()
		if err != nil {
			break
		}
		if ev.GetDelta() != nil && first.IsZero() {
			first = time.Now()
		}
		last = time.Now()
	}
	if last.Sub(first) < 200*time.Millisecond {
		t.Errorf("everything came within %s", last.Sub(first))
	}
}

func testResume(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	whole := read(t, k.stream(t, ctx, text("both please")))
	run := whole.terminal.GetRun()
	for i, ev := range whole.events {
		rest := read(t, k.attach(t, ctx, run.GetId(), ev.GetSeq()))
		same(t, fmt.Sprintf("the rest after %d", ev.GetSeq()), whole.events[i+1:], rest.events)
		same(t, "terminal", whole.terminal, rest.terminal)
	}
	same(t, "everything", whole.events, read(t, k.attach(t, ctx, "latest", 0)).events)
}

func testAttachMidway(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s := k.stream(t, ctx, text("slow"))
	for {
		ev, err := s.Recv()
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if ev.GetDelta() != nil && ev.GetDelta().GetOffsetBytes() > 10 {
			break
		}
	}
	r := read(t, k.attach(t, ctx, "latest", 0))
	said := ""
	for _, d := range r.deltas {
		if int(d.GetOffsetBytes()) != len(said) {
			t.Errorf("a delta at %d follows %d bytes", d.GetOffsetBytes(), len(said))
		}
		said += d.GetText()
	}
	if said != r.terminal.GetRun().GetText() {
		t.Errorf("deltas say %q, the run %q", said, r.terminal.GetRun().GetText())
	}
}

func testWatchers(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	started, err := k.runs.StartRun(ctx, &orchestratorv1.StartRunRequest{Input: text("slow")})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	records := make([]record, 20)
	var all sync.WaitGroup
	for i := range records {
		all.Go(func() { records[i] = read(t, k.attach(t, ctx, started.GetRun().GetId(), 0)) })
	}
	all.Wait()
	for _, r := range records[1:] {
		same(t, "events", records[0].events, r.events)
	}
}

func testAttachNothing(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	_, err := k.attach(t, ctx, "r-nothing", 0).Recv()
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: "latest"})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
	_, err = k.runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: "r-nothing"})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
}

func testLeave(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	leaving, leave := contextWithCancel(ctx)
	until(t, k.stream(t, leaving, text("slow")), "model/dispatched")
	leave()
	r := read(t, k.attach(t, ctx, "latest", 0))
	wantState(t, r.terminal.GetRun(), completed, "done")
}

func testCancelOnDisconnect(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	leaving, leave := contextWithCancel(ctx)
	until(t, k.stream(t, leaving, &orchestratorv1.RunInput{Text: "stuck", CancelOnDisconnect: true}), "model/dispatched")
	leave()
	r := read(t, k.attach(t, ctx, "latest", 0))
	wantState(t, r.terminal.GetRun(), cancelled, "cancelled")
}

var startCases = map[string]func(testkit.T, *kit){
	"a repeat is the same run":           testIdempotent,
	"a request id for another input":     testRequestMismatch,
	"a fresh session is returned":        testFreshSession,
	"an empty input":                     testEmptyInput,
	"an unknown agent":                   testUnknownAgent,
	"an unknown model":                   testUnknownModel,
	"scopes that the agent forbids":      testScopes,
	"a contradictory spec":               testContradiction,
	"large inputs":                       testLargeInput,
	"odd ids stay apart":                 testOddIDs,
	"the run remembers what was said":    testConversation,
	"runs of a thread, the newest first": testListRuns,
}

func testIdempotent(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	in := &orchestratorv1.RunInput{Text: "keep it", RequestId: "once"}
	first := k.call(t, ctx, in)
	again := k.call(t, ctx, in)
	same(t, "the repeat", first, again)
	r := read(t, k.stream(t, ctx, in))
	if r.terminal.GetRun().GetId() != first.GetId() || len(r.results()) != 1 {
		t.Errorf("the repeated stream is of run %s with %d calls", r.terminal.GetRun().GetId(), len(r.results()))
	}
	list, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{})
	if err != nil || len(list.GetRuns()) != 1 {
		t.Errorf("there are %d runs, %v", len(list.GetRuns()), err)
	}
}

func testRequestMismatch(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.call(t, ctx, &orchestratorv1.RunInput{Text: "hello", RequestId: "once"})
	_, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "keep it", RequestId: "once"}})
	wantError(t, err, errdefs.ErrAborted, "REQUEST_MISMATCH")
}

func testFreshSession(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "nobody-yet"})
	var header metadata.MD
	resp, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: text("hello")}, grpc.Header(&header))
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	session := resp.GetRun().GetThread().GetSession()
	if len(session) < 32 || len(header.Get("gantry-session")) != 1 || header.Get("gantry-session")[0] != session {
		t.Errorf("the session is %q, the header %v", session, header.Get("gantry-session"))
	}
	other, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: text("hello")})
	if err != nil || other.GetRun().GetThread().GetSession() == session {
		t.Errorf("the next call is on %q, %v", other.GetRun().GetThread().GetSession(), err)
	}
}

func testEmptyInput(t testkit.T, k *kit) {
	_, err := k.runs.CallAgent(k.ctx(t), &orchestratorv1.CallAgentRequest{Input: text("")})
	wantError(t, err, errdefs.ErrInvalidArgument, "SPEC_INVALID")
}

func testUnknownAgent(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{Agent: "no-such-agent", User: "u", Session: "s"})
	_, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: text("hello")})
	wantError(t, err, errdefs.ErrNotFound, "AGENT_NOT_FOUND")
	_, err = k.stream(t, ctx, text("hello")).Recv()
	wantError(t, err, errdefs.ErrNotFound, "AGENT_NOT_FOUND")
}

func testUnknownModel(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	_, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "hello", Spec: &orchestratorv1.AgentSpec{Model: "scripted:nope"}}})
	wantError(t, err, errdefs.ErrNotFound, "MODEL_NOT_FOUND")
	if _, err := k.threads.GetThread(ctx, &orchestratorv1.GetThreadRequest{}); errdefs.ReasonOf(err) != "THREAD_NOT_FOUND" {
		t.Errorf("the refused call left something behind: %v", err)
	}
}

func testScopes(t testkit.T, k *kit) {
	ctx := k.as(t, identity.Identity{User: "u", Session: "scopes", Scope: identity.ScopeGlobal})
	_, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: text("hello")})
	wantError(t, err, errdefs.ErrPermissionDenied, "SCOPE_NOT_ALLOWED")
}

func testContradiction(t testkit.T, k *kit) {
	for _, spec := range []*orchestratorv1.AgentSpec{
		{FilesystemMode: orchestratorv1.FilesystemMode_FILESYSTEM_MODE_STORE, FilesystemAddress: "127.0.0.1:1"},
		{PolicyRules: []string{"perhaps write_file"}},
	} {
		_, err := k.runs.CallAgent(k.ctx(t), &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "hello", Spec: spec}})
		wantError(t, err, errdefs.ErrInvalidArgument, "SPEC_INVALID")
	}
}

func testLargeInput(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	in := &orchestratorv1.RunInput{Text: "hello " + strings.Repeat("x", 150_000), RequestId: "large"}
	first := k.call(t, ctx, in)
	wantState(t, first, completed, "done")
	if again := k.call(t, ctx, in); again.GetId() != first.GetId() {
		t.Errorf("the repeat is run %s", again.GetId())
	}
}

func testOddIDs(t testkit.T, k *kit) {
	ids := []string{"cid9+/Q==", "a:b", "a-b", "a/b", ".", "..", "../x", "Ana", "ana", "ana ", "アナ", "Ü", "🦆"}
	seen := map[string]string{}
	for _, user := range ids {
		for _, session := range []string{"s", "S", "a/s"} {
			ctx := k.as(t, identity.Identity{User: user, Session: session + fmt.Sprint(fresh.Load())})
			r := k.call(t, ctx, text("hello"))
			if other, dup := seen[r.GetId()]; dup {
				t.Errorf("%q and %q share a run", user, other)
			}
			seen[r.GetId()] = user
			list, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{})
			if err != nil || len(list.GetRuns()) != 1 || list.GetRuns()[0].GetThread().GetUser() != user {
				t.Errorf("%q sees %v, %v", user, list.GetRuns(), err)
			}
		}
	}
}

func testConversation(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.call(t, ctx, text("hello"))
	k.call(t, ctx, text("keep it"))
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	var roles []threadv1.Role
	for _, m := range list.GetMessages() {
		roles = append(roles, m.GetMessage().GetRole())
	}
	user, model, tool := threadv1.Role_ROLE_USER, threadv1.Role_ROLE_ASSISTANT, threadv1.Role_ROLE_TOOL
	same(t, "roles", []threadv1.Role{user, model, user, model, tool, model}, roles)
}

func testListRuns(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	var want []string
	for range 3 {
		want = append(want, k.call(t, ctx, text("hello")).GetId())
	}
	slices.Reverse(want)
	var got []string
	for token := ""; ; {
		page, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, r := range page.GetRuns() {
			got = append(got, r.GetId())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	same(t, "runs", want, got)
	_, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{PageToken: "nonsense"})
	wantError(t, err, errdefs.ErrInvalidArgument, "SPEC_INVALID")
}
