package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// randomJournal makes a legal journal of at least n events: runs on one thread, one after the other, each a random walk through what may happen, and between
// their steps what may come at any time.
func randomJournal(t testing.TB, seed uint64, n int) []*threadv1.Event {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	w := &world{thread: &loop.Thread{}}
	var out []*threadv1.Event
	run := 0
	add := func(events []*threadv1.Event) {
		for _, ev := range events {
			ev.Time = timestamppb.New(time.Unix(1_800_000_000, ev.GetSeq()*1001))
			ev.TurnId, ev.Id = ev.GetRunId(), fmt.Sprintf("1.%d", ev.GetSeq())
			ev.Redacted = ev.GetPayload() == nil
		}
		fold(t, w.thread, events)
		out = append(out, events...)
	}
	for len(out) < n {
		if w.thread.Run == nil {
			run++
			w.spent, w.most = spent{}, spent{r.IntN(3), r.IntN(3), r.IntN(2), r.IntN(3), 2, r.IntN(2)}
			add(startOf(t, w.thread, run, loop.Settings{MaxSteps: 2 + r.IntN(5), Tokens: int64(r.IntN(2)) * 500}))
			continue
		}
		if r.IntN(3) == 0 {
			add(eventsOf(w.thread, move{payloads: []*payload{aside(r, len(out))}}))
			continue
		}
		moves := w.moves()
		m := moves[r.IntN(len(moves))]
		switch { // what chance alone seldom leads to
		case seed%4 == 1 && r.IntN(5) > 0: // the same call fails again and again
			m = pick(moves, "calls [read]", "decide allow", "dispatch", "error", "request")
		case seed%4 == 0 && r.IntN(3) > 0: // work in the background
			m = pick(moves, "task ends", "calls [read write]", "decide allow allow", "dispatch", "starts a task", "ok", "request")
		}
		w.spent = w.spent.plus(m.spends)
		add(eventsOf(w.thread, m))
	}
	return out
}

// startOf are the first events of a run.
func startOf(t testing.TB, thread *loop.Thread, run int, settings loop.Settings) []*threadv1.Event {
	t.Helper()
	s, err := settings.Struct()
	if err != nil {
		t.Fatal(err)
	}
	events := eventsOf(thread, move{payloads: []*payload{
		{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{Cause: "call", RequestId: fmt.Sprint("request ", run), Settings: s}}},
		{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{Message: loop.Text(fmt.Sprint("in", run), threadv1.Role_ROLE_USER, "", "do it")}}},
	}})
	for _, ev := range events {
		ev.RunId = fmt.Sprint("r", run)
	}
	return events
}

// aside is an event that changes no run.
func aside(r *rand.Rand, n int) *payload {
	switch r.IntN(6) {
	case 0:
		return &payload{Kind: &threadv1.EventPayload_TodoChanged{TodoChanged: &threadv1.TodoChanged{Items: []*threadv1.TodoItem{{Content: fmt.Sprint("item ", n)}}}}}
	case 1:
		return &payload{Kind: &threadv1.EventPayload_PlanChanged{PlanChanged: &threadv1.PlanChanged{Change: []string{"entered", "exited"}[r.IntN(2)], Path: "plans/PLAN.md"}}}
	case 2:
		return &payload{Kind: &threadv1.EventPayload_PermissionChanged{PermissionChanged: &threadv1.PermissionChanged{Mode: "explore", AddedRule: fmt.Sprintf("allow(execute %d)", r.IntN(4))}}}
	case 3:
		return &payload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{Message: loop.Text(fmt.Sprint("aside", n), threadv1.Role_ROLE_USER, loop.OriginInject, "by the way")}}}
	case 4:
		return &payload{Kind: &threadv1.EventPayload_NoticeShown{NoticeShown: &threadv1.NoticeShown{Text: "a notice"}}}
	}
	return nil // a tombstone
}
