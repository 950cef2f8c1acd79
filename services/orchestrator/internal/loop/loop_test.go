package loop_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

type payload = threadv1.EventPayload

// machine applies payloads as events of run r.
type machine struct {
	t      testing.TB
	thread *loop.Thread
	events []*threadv1.Event
}

func newMachine(t testing.TB, settings loop.Settings) *machine {
	m := &machine{t: t, thread: &loop.Thread{}}
	s, err := settings.Struct()
	if err != nil {
		t.Fatal(err)
	}
	m.apply(&payload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{Settings: s}}})
	m.apply(&payload{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{Message: loop.Text("in", threadv1.Role_ROLE_USER, "", "do it")}}})
	return m
}

func (m *machine) apply(payloads ...*payload) *machine {
	m.t.Helper()
	for _, p := range payloads {
		ev := &threadv1.Event{Schema: 1, Seq: m.thread.Seq + 1, RunId: "r", Payload: p, Required: true}
		if err := m.thread.Apply(ev); err != nil {
			m.t.Fatalf("apply %v: %v", p, err)
		}
		m.events = append(m.events, proto.CloneOf(ev))
	}
	return m
}

func (m *machine) next() loop.Action { return m.thread.Next(facts) }

var facts = loop.Facts{Safe: func(name string) bool { return name == "read" }, Parallel: 3}

func prepared() *payload {
	return &payload{Kind: &threadv1.EventPayload_RequestPrepared{RequestPrepared: &threadv1.RequestPrepared{}}}
}

func dispatchedModel() *payload {
	return &payload{Kind: &threadv1.EventPayload_ModelDispatched{ModelDispatched: &threadv1.ModelDispatched{MessageId: "m", Attempt: 1, Model: "scripted:script"}}}
}

// answer is a model's answer with a text and calls of the named tools, whose ids are name and number.
func answer(id, text string, tools ...string) *payload {
	m := loop.Text(id, threadv1.Role_ROLE_ASSISTANT, "", text)
	for i, name := range tools {
		m.Blocks = append(m.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{ToolCall: &threadv1.ToolCall{
			Id: fmt.Sprintf("%s/%s%d", id, name, i), Name: name, ArgumentsJson: "{}",
		}}})
	}
	return &payload{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: &threadv1.ModelEnded{Message: m, FinishReason: "stop", Usage: &threadv1.Usage{InputTokens: 10, OutputTokens: 1, Requests: 1}}}}
}

func decided(call, decision string) *payload {
	return &payload{Kind: &threadv1.EventPayload_ToolDecided{ToolDecided: &threadv1.ToolDecided{CallId: call, Decision: decision, Rule: "a rule"}}}
}

func sent(call string) *payload {
	return &payload{Kind: &threadv1.EventPayload_ToolDispatched{ToolDispatched: &threadv1.ToolDispatched{CallId: call, Effect: "e", EffectKind: "files"}}}
}

func result(call string, status threadv1.ToolStatus, text string) *payload {
	return &payload{Kind: &threadv1.EventPayload_ToolEnded{ToolEnded: &threadv1.ToolEnded{Result: &threadv1.ToolResult{CallId: call, Status: status, Text: text}}}}
}

func asked(call string) *payload {
	return &payload{Kind: &threadv1.EventPayload_InteractionRequested{InteractionRequested: &threadv1.InteractionRequested{
		Interaction: &threadv1.Interaction{Id: "i-" + call, Kind: "approval", Call: &threadv1.ToolCall{Id: call}},
	}}}
}

func resolvedAs(call, resolution string) *payload {
	return &payload{Kind: &threadv1.EventPayload_InteractionResolved{InteractionResolved: &threadv1.InteractionResolved{InteractionId: "i-" + call, Resolution: resolution}}}
}

func suspended() *payload {
	return &payload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: &threadv1.RunEnded{State: threadv1.RunState_RUN_STATE_SUSPENDED}}}
}

func cancel() *payload {
	return &payload{Kind: &threadv1.EventPayload_CancelRequested{CancelRequested: &threadv1.CancelRequested{}}}
}

func steered(kind, text string) *payload {
	return &payload{Kind: &threadv1.EventPayload_SteerApplied{SteerApplied: &threadv1.SteerApplied{Kind: kind, Message: loop.Text("st", threadv1.Role_ROLE_USER, loop.OriginSteer, text)}}}
}

const (
	ok     = threadv1.ToolStatus_TOOL_STATUS_OK
	failed = threadv1.ToolStatus_TOOL_STATUS_ERROR
)

func calls(act loop.Action) []string {
	var ids []string
	for _, c := range act.Calls {
		ids = append(ids, c.Call.GetId())
	}
	return ids
}

func TestNext(t *testing.T) {
	step := []*payload{prepared(), dispatchedModel()}
	with := func(more ...*payload) []*payload { return append(append([]*payload{}, step...), more...) }
	for name, c := range map[string]struct {
		settings loop.Settings
		events   []*payload
		kind     loop.Kind
		calls    []string
		reason   string
		final    bool
		remind   bool
	}{
		"a fresh run asks the model":           {kind: loop.Prepare},
		"a request on its way is awaited":      {events: step, kind: loop.AwaitModel},
		"text without calls ends the run":      {events: with(answer("m", "done")), kind: loop.End, reason: "done"},
		"blank text is reminded of":            {events: with(answer("m", " \n")), kind: loop.Prepare, remind: true},
		"blank at the limit: last request":     {settings: loop.Settings{MaxSteps: 1}, events: with(answer("m", "")), kind: loop.Prepare, final: true, remind: true},
		"calls are decided first":              {events: with(answer("m", "", "read", "write")), kind: loop.Decide, calls: []string{"m/read0", "m/write1"}},
		"text beside calls does not end":       {events: with(answer("m", "let me see", "read")), kind: loop.Decide, calls: []string{"m/read0"}},
		"a denied call is closed":              {events: with(answer("m", "", "write"), decided("m/write0", "deny")), kind: loop.Close, calls: []string{"m/write0"}},
		"a call that may is dispatched":        {events: with(answer("m", "", "write"), decided("m/write0", "allow")), kind: loop.Dispatch, calls: []string{"m/write0"}},
		"a call on its way is awaited":         {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0")), kind: loop.AwaitTools, calls: []string{"m/write0"}},
		"results lead to the next request":     {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0"), result("m/write0", ok, "x")), kind: loop.Prepare},
		"an open question suspends":            {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0")), kind: loop.Suspend},
		"a suspended run is idle":              {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0"), suspended()), kind: loop.Idle},
		"what may works beside what is asked":  {events: with(answer("m", "", "write", "read"), decided("m/write0", "ask"), asked("m/write0"), decided("m/read1", "allow")), kind: loop.Dispatch, calls: []string{"m/read1"}},
		"approved: dispatched":                 {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0"), suspended(), resolvedAs("m/write0", "approved")), kind: loop.Dispatch, calls: []string{"m/write0"}},
		"refused: closed":                      {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0"), suspended(), resolvedAs("m/write0", "denied")), kind: loop.Close, calls: []string{"m/write0"}},
		"expired: closed":                      {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0"), suspended(), resolvedAs("m/write0", "expired")), kind: loop.Close, calls: []string{"m/write0"}},
		"answered in part: suspended again":    {events: with(answer("m", "", "write", "write"), decided("m/write0", "ask"), asked("m/write0"), decided("m/write1", "ask"), asked("m/write1"), suspended(), resolvedAs("m/write0", "denied"), result("m/write0", failed, "no")), kind: loop.Suspend},
		"an unknown outcome, to be made again": {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0"), asked("m/write0"), resolvedAs("m/write0", "retry")), kind: loop.Dispatch, calls: []string{"m/write0"}},
		"an unknown outcome, to be skipped":    {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0"), asked("m/write0"), resolvedAs("m/write0", "skip")), kind: loop.Close, calls: []string{"m/write0"}},
		"an unknown outcome that must fail":    {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0"), asked("m/write0"), resolvedAs("m/write0", "fail")), kind: loop.End, reason: "refused_by_person"},
		"cancel with nothing open":             {events: []*payload{cancel()}, kind: loop.End, reason: "cancelled"},
		"cancel waits for the model":           {events: with(cancel()), kind: loop.AwaitModel},
		"cancel closes what does not fly":      {events: with(answer("m", "", "write", "read"), decided("m/write0", "allow"), sent("m/write0"), cancel()), kind: loop.Close, calls: []string{"m/read1"}},
		"cancel waits for what flies":          {events: with(answer("m", "", "write"), decided("m/write0", "allow"), sent("m/write0"), cancel()), kind: loop.AwaitTools, calls: []string{"m/write0"}},
		"cancel ends a suspended run":          {events: with(answer("m", "", "write"), decided("m/write0", "ask"), asked("m/write0"), suspended(), cancel()), kind: loop.Close, calls: []string{"m/write0"}},
		"steering leads to another request":    {events: with(answer("m", "done"), steered("steer", "and that")), kind: loop.Prepare},
		"an interrupt without a text ends":     {events: []*payload{steered("interrupt", "")}, kind: loop.End, reason: "interrupted"},
		"an interrupt with a text goes on":     {events: with(answer("m", "", "write"), steered("interrupt", "no, this")), kind: loop.Close, calls: []string{"m/write0"}},
		"tokens are used up":                   {settings: loop.Settings{Tokens: 11}, events: with(answer("m", "", "write")), kind: loop.Close, calls: []string{"m/write0"}},
		"an answer is kept whatever it cost":   {settings: loop.Settings{Tokens: 5}, events: with(answer("m", "done")), kind: loop.End, reason: "done"},
		"the time is up":                       {settings: loop.Settings{WallTimeMillis: 1}, kind: loop.End, reason: "budget_wall_time"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.settings)
			m.apply(c.events...)
			f := facts
			if c.settings.WallTimeMillis > 0 {
				f.Now = m.thread.Run.StartTime.Add(time.Second)
			}
			act := m.thread.Next(f)
			if act.Kind != c.kind || act.Final != c.final || act.Remind != c.remind || act.End.GetReason() != c.reason {
				if act.Kind != loop.Suspend || c.kind != loop.Suspend {
					t.Fatalf("next is %v final=%v remind=%v reason=%q", act.Kind, act.Final, act.Remind, act.End.GetReason())
				}
			}
			if c.calls != nil && !cmp.Equal(calls(act), c.calls) {
				t.Errorf("calls are %v, want %v", calls(act), c.calls)
			}
		})
	}
}

func TestCallsThatAreNotSafeAreBarriers(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	names := []string{"read", "read", "write", "read", "read", "read", "read"}
	m.apply(prepared(), dispatchedModel(), answer("m", "", names...))
	for i, n := range names {
		m.apply(decided(fmt.Sprintf("m/%s%d", n, i), "allow"))
	}
	var waves [][]string
	for m.next().Kind == loop.Dispatch {
		act := m.next()
		waves = append(waves, calls(act))
		for _, id := range calls(act) {
			m.apply(sent(id))
		}
		for _, id := range calls(act) {
			m.apply(result(id, ok, "x"))
		}
	}
	want := [][]string{{"m/read0", "m/read1"}, {"m/write2"}, {"m/read3", "m/read4", "m/read5"}, {"m/read6"}}
	if diff := cmp.Diff(want, waves); diff != "" {
		t.Error(diff)
	}
}

func TestResultsFollowTheirCallsInOrderAndHoldBackWhatCameMeanwhile(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	m.apply(prepared(), dispatchedModel(), answer("m", "", "read", "read"))
	m.apply(&payload{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: &threadv1.TaskDelivered{TaskId: "t", State: "COMPLETED", Text: "found", MessageId: "mail"}}})
	m.apply(result("m/read1", ok, "second"), result("m/read0", ok, "first"))
	got := m.thread.Messages()
	if len(got) != 4 {
		t.Fatalf("%d messages", len(got))
	}
	if got[1].GetRole() != threadv1.Role_ROLE_ASSISTANT || got[2].GetRole() != threadv1.Role_ROLE_TOOL || got[3].GetOrigin() != loop.OriginTask {
		t.Errorf("the order is %v, %v, %v", got[1].GetRole(), got[2].GetRole(), got[3].GetOrigin())
	}
	if a, b := got[2].GetBlocks()[0].GetToolResult().GetText(), got[2].GetBlocks()[1].GetToolResult().GetText(); a != "first" || b != "second" {
		t.Errorf("results are %q, %q", a, b)
	}
}

func TestSameFailureThreeTimesStopsTheRun(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	for i := range 3 {
		id := fmt.Sprintf("m%d", i)
		if act := m.next(); act.Kind != loop.Prepare {
			t.Fatalf("step %d: %v", i, act.Kind)
		}
		m.apply(prepared(), dispatchedModel(), answer(id, "", "read"), decided(id+"/read0", "allow"), sent(id+"/read0"), result(id+"/read0", failed, "no such file"))
	}
	if act := m.next(); act.Kind != loop.End || act.End.GetReason() != loop.ReasonRepeated || act.End.GetState() != threadv1.RunState_RUN_STATE_FAILED {
		t.Errorf("next is %v, %v", act.Kind, act.End)
	}
}

func TestOtherOutcomesDoNotStopTheRun(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	for i := range 6 {
		id := fmt.Sprintf("m%d", i)
		m.apply(prepared(), dispatchedModel(), answer(id, "", "read"), decided(id+"/read0", "allow"), sent(id+"/read0"), result(id+"/read0", failed, fmt.Sprint("another text ", i)))
	}
	if act := m.next(); act.Kind != loop.Prepare {
		t.Errorf("next is %v, %v", act.Kind, act.End)
	}
}

func TestMaxStepsEndsWithOneSummary(t *testing.T) {
	m := newMachine(t, loop.Settings{MaxSteps: 2})
	requests := 0
	for m.next().Kind == loop.Prepare {
		requests++
		id := fmt.Sprintf("m%d", requests)
		m.apply(prepared(), dispatchedModel())
		if m.thread.Run.Step > 2 {
			m.apply(answer(id, "so far so good"))
			continue
		}
		m.apply(answer(id, "", "read"), decided(id+"/read0", "allow"), sent(id+"/read0"), result(id+"/read0", ok, fmt.Sprint(requests)))
	}
	act := m.next()
	if requests != 3 || act.Kind != loop.End || act.End.GetReason() != loop.ReasonMaxSteps || act.End.GetText() != "so far so good" {
		t.Errorf("%d requests, then %v %v", requests, act.Kind, act.End)
	}
}

// TestAResultIsNotTakenByARunThatWouldNotReadIt has a task end in every phase of a run. Between the answer and the end of the run it must wait: taken then, it
// would be marked as delivered, no request would carry it, and the thread would not be woken for it.
func TestAResultIsNotTakenByARunThatWouldNotReadIt(t *testing.T) {
	m := newMachine(t, loop.Settings{MaxSteps: 5})
	for _, step := range []struct {
		name   string
		events []*payload
		want   bool
	}{
		{"before the first request", nil, true},
		{"while the model answers", []*payload{prepared(), dispatchedModel()}, false},
		{"while a call is open", []*payload{answer("m1", "", "write")}, false},
		{"while the run is suspended", []*payload{asked("m1/write0"), suspended()}, true},
		{"between two steps", []*payload{resolvedAs("m1/write0", "approved"), sent("m1/write0"), result("m1/write0", ok, "")}, true},
		{"between the answer and the end", []*payload{prepared(), dispatchedModel(), answer("m2", "done")}, false},
	} {
		m.apply(step.events...)
		if got := m.thread.TakesResult(facts); got != step.want {
			t.Errorf("%s: %v, want %v (next is %v)", step.name, got, step.want, m.next().Kind)
		}
	}
}

func TestARetriedRequestIsTheSameStep(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	m.apply(prepared(), dispatchedModel(),
		&payload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: &threadv1.ModelRetried{Attempt: 1}}}, prepared(), dispatchedModel())
	if r := m.thread.Run; r.Step != 1 {
		t.Errorf("the step is %d", r.Step)
	}
}

func TestCompactionKeepsTheJournalAndTheOrder(t *testing.T) {
	m := newMachine(t, loop.Settings{})
	m.apply(prepared(), dispatchedModel(), answer("m1", "", "read"), result("m1/read0", ok, "x"))
	through := m.thread.Seq
	m.apply(prepared(), dispatchedModel(), answer("m2", "", "read"), result("m2/read0", ok, "y"))
	compact := func(at int64, text string) {
		m.apply(&payload{Kind: &threadv1.EventPayload_CompactionApplied{CompactionApplied: &threadv1.CompactionApplied{
			ThroughSeq: at, Summary: loop.Text("s", threadv1.Role_ROLE_USER, loop.OriginSummary, text),
		}}})
	}
	compact(through, "one")
	if got := m.thread.Messages(); len(got) != 3 || loop.TextOf(got[0]) != "one" || got[1].GetRole() != threadv1.Role_ROLE_ASSISTANT {
		t.Fatalf("after the first: %v", got)
	}
	compact(m.thread.Conversation[2].Seq, "both")
	if got := m.thread.Messages(); len(got) != 1 || loop.TextOf(got[0]) != "both" {
		t.Errorf("after the second: %v", got)
	}
}

func TestUnknownRequiredEventsStopARestore(t *testing.T) {
	other := &payload{Kind: &threadv1.EventPayload_Other{}}
	for name, c := range map[string]struct {
		event  *threadv1.Event
		reason string
	}{
		"required":      {&threadv1.Event{Seq: 1, Required: true, Type: "x/y", Payload: other}, "SCHEMA_UNKNOWN"},
		"newer schema":  {&threadv1.Event{Seq: 1, Required: true, Schema: 2, Payload: cancel()}, "SCHEMA_UNKNOWN"},
		"optional":      {&threadv1.Event{Seq: 1, Type: "x/y", Payload: other}, ""},
		"tombstone":     {&threadv1.Event{Seq: 1, Required: true, Redacted: true}, ""},
		"a gap is loud": {&threadv1.Event{Seq: 2, Payload: other}, "JOURNAL_DAMAGED"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&loop.Thread{}).Apply(c.event)
			if errdefs.ReasonOf(err) != c.reason || (err == nil) != (c.reason == "") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestRandomRunsEndAndReplay drives the machine with random answers, tools, people and interruptions: every run ends, every conversation is one that a provider
// accepts, and the state that is rebuilt from the events is the state that was lived.
func TestRandomRunsEndAndReplay(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { lifetime(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func FuzzRuns(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { lifetime(t, rand.New(rand.NewPCG(a, b))) })
}

func lifetime(t *testing.T, rng *rand.Rand) {
	m := newMachine(t, loop.Settings{MaxSteps: 1 + rng.IntN(6), Tokens: int64(rng.IntN(2) * (20 + rng.IntN(60)))})
	for n := 0; m.thread.Run != nil; n++ {
		if n > 500 {
			t.Fatal("the run does not end")
		}
		disturb(m, rng)
		if m.thread.Run != nil {
			act(m, rng, n)
		}
	}
	if m.thread.Latest == nil || !loop.Terminal(m.thread.Latest.State) {
		t.Error("the run has no terminal state")
	}
	wellFormed(t, m.thread.Messages())
	replayed := &loop.Thread{}
	for _, ev := range m.events {
		if err := replayed.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(m.thread, replayed, protocmp.Transform(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("the replayed state differs: %s", diff)
	}
}

// disturb does what people and other replicas do at any time.
func disturb(m *machine, rng *rand.Rand) {
	r := m.thread.Run
	switch rng.IntN(24) {
	case 0:
		m.apply(cancel())
	case 1:
		if r.Model == nil && len(r.Calls) == 0 {
			m.apply(steered("steer", "more"))
		}
	case 2:
		if r.Model == nil {
			m.apply(steered("interrupt", []string{"", "no"}[rng.IntN(2)]))
		}
	case 3:
		m.apply(&payload{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: &threadv1.TaskDelivered{TaskId: "t", State: "FAILED", MessageId: "m"}}})
	}
}

// act does what the machine asks for, with a random outcome.
func act(m *machine, rng *rand.Rand, n int) {
	id := fmt.Sprintf("a%d", n)
	switch a := m.next(); a.Kind {
	case loop.Prepare:
		if a.Remind {
			m.apply(&payload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{Message: loop.Text(id+"r", threadv1.Role_ROLE_USER, loop.OriginReminder, "say something")}}})
		}
		m.apply(prepared(), dispatchedModel())
	case loop.AwaitModel:
		switch rng.IntN(5) {
		case 0:
			m.apply(&payload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: &threadv1.ModelRetried{Attempt: 1}}}, prepared(), dispatchedModel())
		case 1:
			m.apply(answer(id, []string{"", "done"}[rng.IntN(2)]))
		default:
			m.apply(answer(id, "", []string{"read", "write", "read"}[:1+rng.IntN(3)]...))
		}
	case loop.Decide:
		for _, c := range a.Calls {
			d := []string{"allow", "allow", "deny", "ask"}[rng.IntN(4)]
			m.apply(decided(c.Call.GetId(), d))
			if d == "ask" {
				m.apply(asked(c.Call.GetId()))
			}
		}
	case loop.Close:
		for _, c := range a.Calls {
			m.apply(result(c.Call.GetId(), threadv1.ToolStatus_TOOL_STATUS_DENIED, "closed"))
		}
	case loop.Dispatch:
		for _, c := range a.Calls {
			m.apply(sent(c.Call.GetId()))
		}
	case loop.AwaitTools:
		c := a.Calls[rng.IntN(len(a.Calls))]
		m.apply(result(c.Call.GetId(), []threadv1.ToolStatus{ok, failed}[rng.IntN(2)], fmt.Sprint(rng.IntN(2))))
	case loop.Suspend:
		m.apply(suspended())
	case loop.Idle:
		open := m.thread.Run.Interactions()
		i := open[rng.IntN(len(open))]
		m.apply(resolvedAs(i.GetCall().GetId(), []string{"approved", "denied", "expired"}[rng.IntN(3)]))
	case loop.End:
		m.apply(&payload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: a.End}})
	}
}

// wellFormed checks what every provider checks: each call has its result in the next message, and no result is without a call.
func wellFormed(t *testing.T, messages []*threadv1.Message) {
	t.Helper()
	open := map[string]bool{}
	for i, m := range messages {
		if m.GetRole() != threadv1.Role_ROLE_TOOL && len(open) > 0 {
			t.Fatalf("message %d comes before the results of %v", i, open)
		}
		for _, c := range loop.CallsOf(m) {
			open[c.GetId()] = true
		}
		for _, b := range m.GetBlocks() {
			if r := b.GetToolResult(); r != nil {
				if !open[r.GetCallId()] {
					t.Fatalf("message %d answers %s, which was not called", i, r.GetCallId())
				}
				delete(open, r.GetCallId())
			}
		}
	}
	if len(open) > 0 {
		t.Fatalf("%v have no result", open)
	}
}
