package orchestratortest

import (
	"context"
	"errors"
	"slices"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

var travelCases = map[string]func(testkit.T, *kit){
	"rewind, and back":                   testRewind,
	"no rewind into a run":               testNoRewind,
	"rewind over a compaction":           testRewindOverCompaction,
	"replay makes the same requests":     testReplay,
	"replay shows what has changed":      testReplayChanged,
	"two runs compared":                  testCompare,
	"nobody travels in another's thread": testTravelOfOthers,
}

// said are the texts of the conversation as the model would see it.
func (k *kit) said(t testkit.T, ctx context.Context) []string {
	t.Helper()
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{VisibleOnly: true})
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	var out []string
	for _, m := range list.GetMessages() {
		out = append(out, loop.TextOf(m.GetMessage()))
	}
	return out
}

func (k *kit) seq(t testkit.T, ctx context.Context) int64 {
	t.Helper()
	got, err := k.threads.GetThread(ctx, &orchestratorv1.GetThreadRequest{})
	if err != nil {
		t.Fatalf("thread: %v", err)
	}
	return got.GetThread().GetSeq()
}

func testRewind(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	first := k.call(t, ctx, text("hello"))
	after := first.GetLastSeq()
	k.call(t, ctx, text("keep it"))
	all, head := k.said(t, ctx), k.seq(t, ctx)
	for _, c := range []struct {
		to   int64
		want []string
	}{{after, all[:2]}, {0, nil}, {head, all}, {after, all[:2]}} {
		if _, err := k.threads.RewindThread(ctx, &orchestratorv1.RewindThreadRequest{ToSeq: c.to}); err != nil {
			t.Fatalf("rewind to %d: %v", c.to, err)
		}
		if got := k.said(t, ctx); !slices.Equal(got, c.want) {
			t.Errorf("after going back to %d: %q, want %q", c.to, got, c.want)
		}
	}
	// The thread goes on from there, and its journal still has everything.
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
	if got := k.said(t, ctx); len(got) != 4 || !slices.Equal(got[:2], all[:2]) {
		t.Errorf("it went on with %q", got)
	}
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != len(all)+2 {
		t.Errorf("the journal has %d messages, %v, want %d", len(list.GetMessages()), err, len(all)+2)
	}
	runs, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{})
	if err != nil || len(runs.GetRuns()) != 3 {
		t.Errorf("the thread has %d runs, %v", len(runs.GetRuns()), err)
	}
}

func testNoRewind(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("keep it"))
	for to, want := range map[int64]struct {
		class  error
		reason string
	}{r.GetFirstSeq() + 3: {errdefs.ErrFailedPrecondition, "NO_FORK_POINT"}, 1000: {errdefs.ErrOutOfRange, "CURSOR_INVALID"}} {
		_, err := k.threads.RewindThread(ctx, &orchestratorv1.RewindThreadRequest{ToSeq: to})
		wantError(t, err, want.class, want.reason)
	}
	open := k.call(t, ctx, text("ask me"))
	_, err := k.threads.RewindThread(ctx, &orchestratorv1.RewindThreadRequest{})
	wantError(t, err, errdefs.ErrAborted, "THREAD_BUSY")
	if _, err := k.runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: open.GetId()}); err != nil {
		t.Fatalf("cancel: %v", err)
	}
}

func testRewindOverCompaction(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	for range 4 {
		k.call(t, ctx, text("hello"))
	}
	all, head := k.said(t, ctx), k.seq(t, ctx)
	if _, err := k.threads.CompactThread(ctx, &orchestratorv1.CompactThreadRequest{KeepMessages: 2}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	if got := k.said(t, ctx); len(got) >= len(all) {
		t.Fatalf("nothing was summarised: %q", got)
	}
	if _, err := k.threads.RewindThread(ctx, &orchestratorv1.RewindThreadRequest{ToSeq: head}); err != nil {
		t.Fatalf("rewind: %v", err)
	}
	if got := k.said(t, ctx); !slices.Equal(got, all) {
		t.Errorf("the summary was not undone: %q", got)
	}
}

func testReplay(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	k.call(t, ctx, text("hello"))
	r := k.call(t, ctx, text("both please"))
	k.call(t, ctx, text("wrong ones"))
	for _, c := range []struct {
		run      string
		requests int32
	}{{"", 5}, {r.GetId(), 2}} {
		got, err := k.threads.ReplayThread(ctx, &orchestratorv1.ReplayThreadRequest{RunId: c.run})
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
		if got.GetRequests() != c.requests || got.GetEqual() != c.requests || len(got.GetDifferences()) > 0 {
			t.Errorf("%d of %d requests are equal, want %d: %v", got.GetEqual(), got.GetRequests(), c.requests, got.GetDifferences())
		}
	}
	_, err := k.threads.ReplayThread(ctx, &orchestratorv1.ReplayThreadRequest{RunId: "nothing"})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
}

func testReplayChanged(t testkit.T, k *kit) {
	admin := k.as(t, identity.Identity{Agent: "changing", User: "admin"})
	put := func(spec *orchestratorv1.AgentSpec) {
		t.Helper()
		if _, err := k.agents.PutAgent(admin, &orchestratorv1.PutAgentRequest{Id: "changing", Spec: spec}); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	put(&orchestratorv1.AgentSpec{})
	ctx := k.as(t, identity.Identity{Agent: "changing", User: "u", Session: "s"})
	k.call(t, ctx, text("keep it"))
	warm := 0.5
	put(&orchestratorv1.AgentSpec{PolicyRules: []string{"deny write_file"}, Temperature: &warm})
	got, err := k.threads.ReplayThread(ctx, &orchestratorv1.ReplayThreadRequest{})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	what := map[string]bool{}
	for _, d := range got.GetDifferences() {
		what[d.GetWhat()] = true
		if d.GetSeq() == 0 || !contains(d.GetDiff(), "@@") {
			t.Errorf("difference: %v", d)
		}
	}
	if !what["decision"] || !what["prompt"] || got.GetEqual() != 0 {
		t.Errorf("differences: %v", got.GetDifferences())
	}
}

func testCompare(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	one, two, three := k.call(t, ctx, text("keep it")), k.call(t, ctx, text("keep it")), k.call(t, ctx, text("both please"))
	kinds := func(a, b string) map[string]bool {
		got, err := k.threads.CompareRuns(ctx, &orchestratorv1.CompareRunsRequest{RunId: a, OtherRunId: b})
		if err != nil || got.GetRun().GetId() != a || got.GetOther().GetId() != b {
			t.Fatalf("compare: %v, %v", got, err)
		}
		out := map[string]bool{}
		for _, d := range got.GetDifferences() {
			out[d.GetWhat()] = true
		}
		return out
	}
	if got := kinds(one.GetId(), one.GetId()); len(got) > 0 {
		t.Errorf("a run differs from itself in %v", got)
	}
	if got := kinds(one.GetId(), two.GetId()); got["arguments"] || got["decision"] || got["answer"] {
		t.Errorf("the same words differ in %v", got)
	}
	if got := kinds(one.GetId(), three.GetId()); !got["arguments"] || !got["result"] || !got["answer"] {
		t.Errorf("other words differ in %v only", got)
	}
	_, err := k.threads.CompareRuns(ctx, &orchestratorv1.CompareRunsRequest{RunId: one.GetId(), OtherRunId: "nothing"})
	wantError(t, err, errdefs.ErrNotFound, "RUN_NOT_FOUND")
}

func testTravelOfOthers(t testkit.T, k *kit) {
	ana, ben := k.as(t, identity.Identity{User: "ana-travel", Session: "same"}), k.as(t, identity.Identity{User: "ben-travel", Session: "same"})
	run := k.call(t, ana, text("hello"))
	for name, err := range map[string]error{
		"rewind": func() error { _, err := k.threads.RewindThread(ben, &orchestratorv1.RewindThreadRequest{}); return err }(),
		"replay": func() error {
			_, err := k.threads.ReplayThread(ben, &orchestratorv1.ReplayThreadRequest{RunId: run.GetId()})
			return err
		}(),
		"compare": func() error {
			_, err := k.threads.CompareRuns(ben, &orchestratorv1.CompareRunsRequest{RunId: run.GetId(), OtherRunId: run.GetId()})
			return err
		}(),
	} {
		if !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("%s of another user's thread: %v", name, err)
		}
	}
	if got := k.said(t, ana); len(got) != 2 {
		t.Errorf("the thread of the first is %q", got)
	}
}
