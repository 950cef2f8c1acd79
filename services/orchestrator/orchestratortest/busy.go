package orchestratortest

import (
	"context"
	"sync"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func contextWithCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

var busyCases = map[string]func(testkit.T, *kit){
	"queued in order":                      testQueue,
	"24 at once, none is lost":             testQueueMany,
	"refused":                              testRefuse,
	"interrupted":                          testBusyInterrupt,
	"steered":                              testBusySteer,
	"a steering input on an idle thread":   testSteerIdle,
	"a queued run can be cancelled":        testCancelQueued,
	"a new word instead of an answer":      testSupersede,
	"other threads of the user don't wait": testOtherThread,
}

// hold starts a run that works until it is stopped.
func (k *kit) hold(t testkit.T, ctx context.Context) (receiver, string) {
	t.Helper()
	s := k.stream(t, ctx, text("stuck"))
	run := until(t, s, "model/dispatched").GetRunId()
	for said := ""; said != "I think and think"; {
		ev, err := s.Recv()
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		said += ev.GetDelta().GetText()
	}
	return s, run
}

func testQueue(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	slow := k.stream(t, ctx, text("slow"))
	until(t, slow, "model/dispatched")
	second := read(t, k.stream(t, ctx, text("hello")))
	first := read(t, slow)
	if first.terminal.GetRun().GetLastSeq() >= second.events[0].GetSeq() {
		t.Errorf("the second run began at %d, the first ended at %d", second.events[0].GetSeq(), first.terminal.GetRun().GetLastSeq())
	}
}

func testQueueMany(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() { wantState(t, k.call(t, ctx, text("hello")), completed, "done") })
	}
	all.Wait()
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{PageSize: 500})
	if err != nil || len(list.GetMessages()) != 48 {
		t.Errorf("there are %d messages, %v", len(list.GetMessages()), err)
	}
}

func testRefuse(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	refuse := &orchestratorv1.RunInput{Text: "hello", BusyPolicy: orchestratorv1.BusyPolicy_BUSY_POLICY_REFUSE}
	_, err := k.runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: refuse})
	wantError(t, err, errdefs.ErrAborted, "THREAD_BUSY")
	k.cancel(t, ctx, run)
	read(t, s)
	wantState(t, k.call(t, ctx, refuse), completed, "done")
}

func (k *kit) cancel(t testkit.T, ctx context.Context, run string) {
	t.Helper()
	if _, err := k.runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: run, Reason: "enough"}); err != nil {
		t.Fatalf("cancel: %v", err)
	}
}

func testBusyInterrupt(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, _ := k.hold(t, ctx)
	r := k.call(t, ctx, &orchestratorv1.RunInput{Text: "hello", BusyPolicy: orchestratorv1.BusyPolicy_BUSY_POLICY_INTERRUPT})
	wantState(t, r, completed, "done")
	first := read(t, s)
	wantState(t, first.terminal.GetRun(), completed, "interrupted")
	if first.terminal.GetRun().GetText() != "I think and think" {
		t.Errorf("the partial text is %q", first.terminal.GetRun().GetText())
	}
}

func testBusySteer(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	slow := k.stream(t, ctx, text("slow"))
	run := until(t, slow, "model/dispatched").GetRunId()
	r := k.call(t, ctx, &orchestratorv1.RunInput{Text: "and more", BusyPolicy: orchestratorv1.BusyPolicy_BUSY_POLICY_STEER})
	if r.GetId() != run || r.GetText() != "Taken in." {
		t.Errorf("the answer is %q of run %s, the working run was %s", r.GetText(), r.GetId(), run)
	}
	read(t, slow)
}

func testSteerIdle(t testkit.T, k *kit) {
	r := k.call(t, k.ctx(t), &orchestratorv1.RunInput{Text: "hello", BusyPolicy: orchestratorv1.BusyPolicy_BUSY_POLICY_STEER})
	wantState(t, r, completed, "done")
}

func testCancelQueued(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	queued, err := k.runs.StartRun(ctx, &orchestratorv1.StartRunRequest{Input: text("hello")})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	got, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: queued.GetRun().GetId()})
	if err != nil || got.GetRun().GetState().String() != "RUN_STATE_QUEUED" {
		t.Errorf("the queued run is %v, %v", got.GetRun(), err)
	}
	k.cancel(t, ctx, queued.GetRun().GetId())
	r := read(t, k.attach(t, ctx, queued.GetRun().GetId(), 0))
	wantState(t, r.terminal.GetRun(), cancelled, "cancelled")
	k.cancel(t, ctx, run)
	read(t, s)
}

func testSupersede(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	wantState(t, k.call(t, ctx, text("ask me")), suspended, "interaction")
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
	list, err := k.runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{})
	if err != nil || len(list.GetRuns()) != 2 {
		t.Fatalf("runs: %v, %v", list.GetRuns(), err)
	}
	wantState(t, list.GetRuns()[1], cancelled, "cancelled")
	open, err := k.runs.ListInteractions(ctx, &orchestratorv1.ListInteractionsRequest{})
	if err != nil || len(open.GetInteractions()) != 0 {
		t.Errorf("still open: %v, %v", open.GetInteractions(), err)
	}
}

func testOtherThread(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	wantState(t, k.call(t, k.ctx(t), text("hello")), completed, "done")
	k.cancel(t, ctx, run)
	read(t, s)
}

var stopCases = map[string]func(testkit.T, *kit){
	"cancel while the model speaks": testCancel,
	"cancel a suspended run":        testCancelSuspended,
	"cancel twice, and what ended":  testCancelTwice,
	"interrupt with a text":         testInterrupt,
	"inject a note":                 testInject,
	"steer what has ended":          testSteerEnded,
}

func testCancel(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	k.cancel(t, ctx, run)
	r := read(t, s)
	same(t, "the end", []string{"cancel/requested", "model/ended", "run/ended"}, r.types())
	wantState(t, r.terminal.GetRun(), cancelled, "cancelled")
	if !r.terminal.GetRun().GetCancelRequested() || r.terminal.GetOutcome() != "cancelled" {
		t.Errorf("the run says %v", r.terminal)
	}
	wantState(t, k.call(t, ctx, text("hello")), completed, "done")
}

func testCancelSuspended(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("ask me"))
	k.cancel(t, ctx, r.GetId())
	testkitEventually(t, func() bool {
		got, err := k.runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: r.GetId()})
		return err == nil && got.GetRun().GetState() == cancelled
	})
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil || len(list.GetMessages()) != 3 {
		t.Errorf("the conversation is not whole: %v, %v", list.GetMessages(), err)
	}
}

func testCancelTwice(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	k.cancel(t, ctx, run)
	read(t, s)
	k.cancel(t, ctx, run)
	done := k.call(t, ctx, text("hello"))
	_, err := k.runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: done.GetId()})
	wantError(t, err, errdefs.ErrFailedPrecondition, "RUN_ENDED")
}

func (k *kit) steer(t testkit.T, ctx context.Context, run, text string, kind orchestratorv1.SteerKind) {
	t.Helper()
	if _, err := k.runs.SteerRun(ctx, &orchestratorv1.SteerRunRequest{RunId: run, Kind: kind, Text: text}); err != nil {
		t.Fatalf("steer: %v", err)
	}
}

func testInterrupt(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s, run := k.hold(t, ctx)
	k.steer(t, ctx, run, "instead do that", orchestratorv1.SteerKind_STEER_KIND_INTERRUPT)
	r := read(t, s)
	wantState(t, r.terminal.GetRun(), completed, "done")
	list, err := k.threads.ListMessages(ctx, &orchestratorv1.ListMessagesRequest{})
	if err != nil {
		t.Fatalf("messages: %v", err)
	}
	var said []string
	for _, m := range list.GetMessages() {
		said = append(said, m.GetMessage().GetBlocks()[0].GetText())
	}
	same(t, "conversation", []string{"stuck", "I think and think", "instead do that", r.terminal.GetRun().GetText()}, said)
}

func testInject(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	s := k.stream(t, ctx, text("slow"))
	run := until(t, s, "model/dispatched").GetRunId()
	k.steer(t, ctx, run, "and a note", orchestratorv1.SteerKind_STEER_KIND_INJECT)
	r := read(t, s)
	wantState(t, r.terminal.GetRun(), completed, "done")
	found := false
	for _, ev := range r.events {
		found = found || ev.GetPayload().GetSteerApplied().GetKind() == "inject"
	}
	if !found {
		t.Errorf("the note was not taken in: %v", r.types())
	}
}

func testSteerEnded(t testkit.T, k *kit) {
	ctx := k.ctx(t)
	r := k.call(t, ctx, text("hello"))
	_, err := k.runs.SteerRun(ctx, &orchestratorv1.SteerRunRequest{RunId: r.GetId(), Text: "late"})
	wantError(t, err, errdefs.ErrFailedPrecondition, "RUN_ENDED")
}
