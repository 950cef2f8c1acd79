package tasktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

var errStillRunning = errors.New("still running")

func waits(t testkit.T, s *suite) {
	t.Run("any and all", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		a, b := s.create(t, ctx, job(queue)), s.create(t, ctx, job(queue))
		first := s.lease(t, "w", queue, time.Minute)
		wait := func(mode taskv1.WaitMode) <-chan *taskv1.WaitTasksResponse {
			out := make(chan *taskv1.WaitTasksResponse, 1)
			go func() {
				r, err := s.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: []string{a.GetId(), b.GetId()}, Mode: mode, MaxWait: durationpb.New(testTimeout)})
				if err != nil {
					t.Errorf("WaitTasks: %v", err)
				}
				out <- r
			}()
			return out
		}
		anyOf, allOf := wait(taskv1.WaitMode_WAIT_MODE_ANY), wait(taskv1.WaitMode_WAIT_MODE_ALL)
		if _, err := s.CompleteTask(worker(t), completion(first, "first")); err != nil {
			t.Fatal(err)
		}
		if r := <-anyOf; !r.GetSatisfied() || r.GetTasks()[0].GetId() != a.GetId() || r.GetTasks()[0].GetResult().GetText() != "first" || r.GetTasks()[1].GetState() != pending {
			t.Errorf("any: %v", r)
		}
		select {
		case r := <-allOf:
			t.Fatalf("all answered before the second ended: %v", r)
		default:
		}
		if _, err := s.CompleteTask(worker(t), completion(s.lease(t, "w", queue, time.Minute), "second")); err != nil {
			t.Fatal(err)
		}
		if r := <-allOf; !r.GetSatisfied() || r.GetTasks()[1].GetResult().GetText() != "second" {
			t.Errorf("all: %v", r)
		}
	})
	t.Run("a wait that ends first is no error, and can be taken up again", func(t testkit.T) {
		ctx := as(t, unique("ana"), "")
		made := s.create(t, ctx, job(unique("q")))
		r, err := s.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: []string{made.GetId()}, MaxWait: durationpb.New(100 * time.Millisecond)})
		if err != nil || r.GetSatisfied() || r.GetTasks()[0].GetState() != pending {
			t.Errorf("WaitTasks: %v, %v", r, err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r, err = s.WaitTasks(short, &taskv1.WaitTasksRequest{TaskIds: []string{made.GetId()}, MaxWait: durationpb.New(time.Minute)})
		if err != nil || r.GetSatisfied() {
			t.Errorf("with a deadline before max_wait: %v, %v", r, err)
		}
	})
	t.Run("an unknown task is told at once", func(t testkit.T) {
		ctx := as(t, unique("ana"), "")
		made := s.create(t, ctx, job(unique("q")))
		_, err := s.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: []string{made.GetId(), "t_none"}, MaxWait: durationpb.New(time.Minute)})
		hidden(t, "WaitTasks", err)
	})
}

// stream reads a watch until its end, or so many changes.
func (s *suite) stream(t testkit.T, ctx context.Context, r *taskv1.WatchTasksRequest) (changes []*taskv1.TaskChange, caughtUp int, end *taskv1.WatchEnd) {
	t.Helper()
	watch, err := s.WatchTasks(ctx, r)
	if err != nil {
		t.Fatalf("WatchTasks: %v", err)
	}
	for {
		item, err := watch.Recv()
		if err == io.EOF {
			return changes, caughtUp, end
		}
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		if end != nil {
			t.Error("a message after the end")
		}
		switch {
		case item.GetChange() != nil:
			changes = append(changes, item.GetChange())
		case item.GetCaughtUp() != nil:
			caughtUp++
		default:
			end = item.GetEnd()
		}
	}
}

func states(changes []*taskv1.TaskChange) string {
	var out []string
	for _, c := range changes {
		out = append(out, strings.TrimPrefix(c.GetTask().GetState().String(), "TASK_STATE_"))
	}
	return strings.Join(out, " ")
}

func watches(t testkit.T, s *suite) {
	now := durationpb.New(0)
	t.Run("from a cursor, in order, with an end", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		listed, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{})
		if err != nil {
			t.Fatal(err)
		}
		s.done(t, ctx, job(queue), "x")
		changes, caughtUp, end := s.stream(t, ctx, &taskv1.WatchTasksRequest{Cursor: listed.GetCursor(), MaxWait: now})
		if got := states(changes); got != "PENDING RUNNING COMPLETED" || caughtUp != 1 || end == nil {
			t.Fatalf("changes %s, caught up %d times, end %v", got, caughtUp, end)
		}
		for i, want := range []string{"RUNNING COMPLETED", "COMPLETED", ""} {
			again, _, _ := s.stream(t, ctx, &taskv1.WatchTasksRequest{Cursor: changes[i].GetCursor(), MaxWait: now})
			if got := states(again); got != want {
				t.Errorf("after change %d: %s, want %s", i, got, want)
			}
		}
		if after, _, _ := s.stream(t, ctx, &taskv1.WatchTasksRequest{Cursor: end.GetCursor(), MaxWait: now}); len(after) > 0 {
			t.Errorf("after the end: %v", after)
		}
		if fromNow, _, _ := s.stream(t, ctx, &taskv1.WatchTasksRequest{MaxWait: now}); len(fromNow) > 0 {
			t.Errorf("from now on: %v", fromNow)
		}
	})
	t.Run("what comes later is sent at once", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		watch, err := s.WatchTasks(ctx, &taskv1.WatchTasksRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if item, err := watch.Recv(); err != nil || item.GetCaughtUp() == nil {
			t.Fatalf("first message %v, %v", item, err)
		}
		s.create(t, ctx, job(queue))
		if item, err := watch.Recv(); err != nil || item.GetChange().GetTask().GetState() != pending {
			t.Errorf("change %v, %v", item, err)
		}
	})
	t.Run("of one tree", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		root := s.create(t, ctx, job(queue))
		got, err := s.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: root.GetId()})
		if err != nil {
			t.Fatal(err)
		}
		s.create(t, ctx, job(queue))
		below := job(queue)
		below.ParentTaskId, below.Label = root.GetId(), "below"
		s.create(t, ctx, below)
		changes, _, _ := s.stream(t, ctx, &taskv1.WatchTasksRequest{Cursor: got.GetCursor(), RootTaskId: root.GetId(), MaxWait: now})
		if len(changes) != 1 || changes[0].GetTask().GetLabel() != "below" {
			t.Errorf("changes %v", changes)
		}
	})
	t.Run("bad cursors", func(t testkit.T) {
		ctx := as(t, unique("ana"), "")
		for _, cursor := range []string{"x", "!!!", "YzEAAA", strings.Repeat("A", 200)} {
			watch, err := s.WatchTasks(ctx, &taskv1.WatchTasksRequest{Cursor: cursor, MaxWait: now})
			if err == nil {
				_, err = watch.Recv()
			}
			refused(t, cursor, err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
		}
	})
}

func listing(t testkit.T, s *suite) {
	t.Run("filters", func(t testkit.T) {
		user, queue := unique("ana"), unique("q")
		ctx := as(t, user, "")
		labels := func(r *taskv1.ListTasksRequest) string {
			t.Helper()
			listed, err := s.ListTasks(ctx, r)
			if err != nil {
				t.Fatalf("ListTasks: %v", err)
			}
			var out []string
			for _, one := range listed.GetTasks() {
				out = append(out, one.GetLabel())
			}
			return strings.Join(out, " ")
		}
		first := job(queue)
		first.Label, first.ParentThread = "first", &commonv1.Thread{Agent: "coder", User: user, Session: "s1"}
		root := s.done(t, ctx, first, strings.Repeat("long ", 1000))
		second := job(queue)
		second.Label, second.Kind = "second", "memory_flush"
		parent := s.create(t, ctx, second)
		third := job(queue)
		third.Label, third.ParentTaskId = "third", parent.GetId()
		s.create(t, ctx, third)
		for _, tt := range []struct {
			request *taskv1.ListTasksRequest
			want    string
		}{
			{&taskv1.ListTasksRequest{}, "third second first"},
			{&taskv1.ListTasksRequest{States: []taskv1.TaskState{completed}}, "first"},
			{&taskv1.ListTasksRequest{States: []taskv1.TaskState{completed, pending}}, "third second first"},
			{&taskv1.ListTasksRequest{States: []taskv1.TaskState{failed}}, ""},
			{&taskv1.ListTasksRequest{Label: "second"}, "second"},
			{&taskv1.ListTasksRequest{Kind: "memory_flush"}, "second"},
			{&taskv1.ListTasksRequest{ParentTaskId: parent.GetId()}, "third"},
			{&taskv1.ListTasksRequest{RootTaskId: parent.GetId()}, "third second"},
			{&taskv1.ListTasksRequest{ParentSession: "s1"}, "first"},
			{&taskv1.ListTasksRequest{ParentSession: "S1"}, ""},
		} {
			if got := labels(tt.request); got != tt.want {
				t.Errorf("%v: %q, want %q", tt.request, got, tt.want)
			}
		}
		listed, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{Label: "first"})
		if err != nil {
			t.Fatal(err)
		}
		one := listed.GetTasks()[0]
		if one.GetId() != root.GetId() || len(one.GetResult().GetText()) != 1024 || !one.GetResult().GetTruncated() || one.GetInput() != nil {
			t.Errorf("listed result of %d bytes, truncated %v, input %v", len(one.GetResult().GetText()), one.GetResult().GetTruncated(), one.GetInput())
		}
		if whole := s.get(t, ctx, root.GetId()).GetResult(); len(whole.GetText()) != 5000 || whole.GetTruncated() {
			t.Errorf("read result of %d bytes, truncated %v", len(whole.GetText()), whole.GetTruncated())
		}
	})
	t.Run("pages are not disturbed by what comes", func(t testkit.T) {
		ctx, queue := as(t, unique("ana"), ""), unique("q")
		for i := range 7 {
			r := job(queue)
			r.Label = fmt.Sprint(i)
			s.create(t, ctx, r)
		}
		var got []string
		r := &taskv1.ListTasksRequest{PageSize: 3}
		for {
			page, err := s.ListTasks(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range page.GetTasks() {
				got = append(got, one.GetLabel())
			}
			if r.PageToken = page.GetNextPageToken(); r.PageToken == "" {
				break
			}
			s.create(t, ctx, job(queue))
		}
		if want := []string{"6", "5", "4", "3", "2", "1", "0"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("a token is for its own list", func(t testkit.T) {
		ctx, queue := as(t, unique("ana"), ""), unique("q")
		s.create(t, ctx, job(queue))
		s.create(t, ctx, job(queue))
		page, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{PageSize: 1})
		if err != nil || page.GetNextPageToken() == "" {
			t.Fatalf("page %v, %v", page, err)
		}
		for what, r := range map[string]*taskv1.ListTasksRequest{
			"another filter": {Label: "x", PageToken: page.GetNextPageToken()}, "no token": {PageToken: "nonsense"},
			"cut": {PageToken: page.GetNextPageToken()[:5]},
		} {
			_, err := s.ListTasks(ctx, r)
			refused(t, what, err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
		}
		if theirs, err := s.ListTasks(as(t, unique("bob"), ""), &taskv1.ListTasksRequest{PageToken: page.GetNextPageToken()}); err == nil && len(theirs.GetTasks()) > 0 {
			t.Errorf("another user's token shows %v", theirs.GetTasks())
		}
	})
}

// hostile are ids that must be data.
var hostile = []string{
	"../../etc/passwd", "a/b", "default/user/coder/ana", "ana%", "ana_", "' OR '1'='1", "ANA", "ana ", "anä", "日本", "🙂", "~", "=2f", "x\u200b", strings.Repeat("é", 100),
}

// isolation tries to reach what belongs to others.
func isolation(t testkit.T, s *suite) {
	victim := unique("ana")
	queue := unique("q")
	own := as(t, victim, "s1")
	r := job(queue)
	r.Label = "canary"
	target := s.create(t, own, r)
	before, err := s.GetTask(own, &taskv1.GetTaskRequest{TaskId: target.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	strangers := map[string]identity.Identity{
		"another user":                          {Agent: "coder", User: unique("bob"), Session: "s1"},
		"the same user with another agent":      {Agent: "reviewer", User: victim, Session: "s1"},
		"an anonymous caller":                   {Agent: "coder", Session: "s1"},
		"the same name in capitals":             {Agent: "coder", User: strings.ToUpper(victim), Session: "s1"},
		"the same name with a space":            {Agent: "coder", User: victim + " ", Session: "s1"},
		"another user in scope global":          {Agent: "coder", User: unique("bob"), Session: "s1", Scope: identity.ScopeGlobal},
		"another user in scope agent":           {Agent: "coder", User: unique("bob"), Session: "s1", Scope: identity.ScopeAgent},
		"a user whose name is the victim's key": {Agent: "coder", User: "default/user/coder/" + victim, Session: "s1"},
	}
	for name, id := range strangers {
		t.Run(name, func(t testkit.T) {
			id.Tenant = identity.DefaultTenant
			ctx := with(t, id)
			s.probe(t, ctx, target.GetId(), before.GetCursor())
		})
	}
	t.Run("hostile names get what is theirs and nothing else", func(t testkit.T) {
		for _, user := range hostile {
			ctx := as(t, user+unique(""), "")
			mine := s.create(t, ctx, job(queue))
			listed, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{})
			if err != nil || len(listed.GetTasks()) != 1 || listed.GetTasks()[0].GetId() != mine.GetId() {
				t.Errorf("user %q sees %v, %v", user, listed.GetTasks(), err)
			}
		}
	})
	t.Run("hostile task ids are just not there", func(t testkit.T) {
		for _, id := range slices.Concat(hostile[:len(hostile)-1], []string{"t_", target.GetId() + " ", strings.ToUpper(target.GetId()), "%", "*"}) {
			_, err := s.GetTask(own, &taskv1.GetTaskRequest{TaskId: id})
			hidden(t, id, err)
		}
	})
	t.Run("anonymous sessions share nothing", func(t testkit.T) {
		a, b := as(t, "", unique("a")), as(t, "", unique("b"))
		s.probe(t, b, s.create(t, a, job(queue)).GetId(), before.GetCursor())
	})
	t.Run("a run may add below its own task and see it, and its tree stays visible from above", func(t testkit.T) {
		child := job(queue)
		child.ParentTaskId, child.ChildThread = target.GetId(), &commonv1.Thread{Agent: "reviewer", User: victim, Session: "child"}
		parent := s.create(t, own, child)
		run := with(t, identity.Identity{Tenant: identity.DefaultTenant, Agent: "reviewer", User: victim, Session: "child"})
		below := job(queue)
		below.ParentTaskId = parent.GetId()
		made := s.create(t, run, below)
		s.get(t, run, made.GetId())
		s.get(t, own, made.GetId())
		_, err := s.GetTask(run, &taskv1.GetTaskRequest{TaskId: target.GetId()})
		hidden(t, "the run looks up", err)
		elsewhere := with(t, identity.Identity{Tenant: identity.DefaultTenant, Agent: "reviewer", User: victim, Session: "elsewhere"})
		_, err = s.CreateTask(elsewhere, below)
		refused(t, "another thread of that agent", err, errdefs.ErrNotFound, "PARENT_NOT_FOUND")
	})
	if after := s.get(t, own, target.GetId()); after.GetRevision() != target.GetRevision() || after.GetState() != pending {
		t.Errorf("strangers changed the task: %v", after)
	}
}

// probe tries every call for clients on a task that the caller must not see.
func (s *suite) probe(t testkit.T, ctx context.Context, id, cursor string) {
	t.Helper()
	_, err := s.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: id})
	hidden(t, "GetTask", err)
	_, err = s.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: id})
	hidden(t, "CancelTask", err)
	_, err = s.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: []string{id}, MaxWait: durationpb.New(0)})
	hidden(t, "WaitTasks", err)
	_, err = s.RespondTask(ctx, &taskv1.RespondTaskRequest{TaskId: id, Answers: []*taskv1.InteractionAnswer{{InteractionId: "i", Decision: "approve"}}})
	hidden(t, "RespondTask", err)
	_, err = s.RetryTask(ctx, &taskv1.RetryTaskRequest{TaskId: id})
	hidden(t, "RetryTask", err)
	_, err = s.PurgeTasks(ctx, &taskv1.PurgeTasksRequest{TaskIds: []string{id}})
	hidden(t, "PurgeTasks", err)
	for what, r := range map[string]*taskv1.ListTasksRequest{"parent": {ParentTaskId: id}, "tree": {RootTaskId: id}} {
		_, err = s.ListTasks(ctx, r)
		hidden(t, "ListTasks by "+what, err)
	}
	listed, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{PageSize: 500})
	if err != nil {
		t.Errorf("ListTasks: %v", err)
	}
	for _, one := range listed.GetTasks() {
		if one.GetId() == id {
			t.Error("ListTasks shows it")
		}
	}
	below := job(unique("q"))
	below.ParentTaskId = id
	_, err = s.CreateTask(ctx, below)
	refused(t, "a child", err, errdefs.ErrNotFound, "PARENT_NOT_FOUND")
	watch, err := s.WatchTasks(ctx, &taskv1.WatchTasksRequest{RootTaskId: id, MaxWait: durationpb.New(0)})
	if err == nil {
		_, err = watch.Recv()
	}
	hidden(t, "WatchTasks", err)
	changes, _, _ := s.stream(t, ctx, &taskv1.WatchTasksRequest{Cursor: cursor, MaxWait: durationpb.New(0)})
	for _, c := range changes {
		if c.GetTask().GetId() == id {
			t.Error("WatchTasks shows it")
		}
	}
}

func cleanup(t testkit.T, s *suite) {
	t.Run("a retry is a new task", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		r := job(queue)
		r.Label = "flaky"
		made := s.create(t, ctx, r)
		_, err := s.RetryTask(ctx, &taskv1.RetryTaskRequest{TaskId: made.GetId()})
		refused(t, "a task that has not ended", err, errdefs.ErrFailedPrecondition, "NOT_RETRYABLE")
		if _, err := s.FailTask(worker(t), failure(s.lease(t, "w", queue, time.Minute), "boom", false)); err != nil {
			t.Fatal(err)
		}
		again, err := s.RetryTask(ctx, &taskv1.RetryTaskRequest{TaskId: made.GetId(), RequestId: "r"})
		if err != nil || again.GetTask().GetRetryOfTaskId() != made.GetId() || again.GetTask().GetState() != pending {
			t.Fatalf("RetryTask: %v, %v", again, err)
		}
		if twice, err := s.RetryTask(ctx, &taskv1.RetryTaskRequest{TaskId: made.GetId(), RequestId: "r"}); err != nil || twice.GetTask().GetId() != again.GetTask().GetId() || !twice.GetDuplicate() {
			t.Errorf("again: %v, %v", twice, err)
		}
		if leased := s.lease(t, "w", queue, time.Minute); leased.GetId() != again.GetTask().GetId() || leased.GetInput().GetText() != "work" || leased.GetLabel() != "flaky" {
			t.Errorf("leased %v", leased)
		}
		if old := s.get(t, ctx, made.GetId()); old.GetState() != failed {
			t.Errorf("the old task is %s", old.GetState())
		}
	})
	t.Run("purge by age, count and name", func(t testkit.T) {
		queue, ctx := unique("q"), as(t, unique("ana"), "")
		var made []*taskv1.Task
		for range 4 {
			made = append(made, s.done(t, ctx, job(queue), "x"))
		}
		alive := s.create(t, ctx, job(queue))
		purge := func(r *taskv1.PurgeTasksRequest, want int32) {
			t.Helper()
			if out, err := s.PurgeTasks(ctx, r); err != nil || out.GetPurged() != want {
				t.Errorf("PurgeTasks(%v): %v, %v; want %d", r, out, err, want)
			}
		}
		purge(&taskv1.PurgeTasksRequest{KeepNewest: 4}, 0)
		purge(&taskv1.PurgeTasksRequest{EndedBeforeTime: timestamppb.New(time.Now().Add(-time.Hour))}, 0)
		purge(&taskv1.PurgeTasksRequest{TaskIds: []string{alive.GetId()}}, 0)
		purge(&taskv1.PurgeTasksRequest{TaskIds: []string{made[3].GetId()}}, 1)
		purge(&taskv1.PurgeTasksRequest{KeepNewest: 2}, 1)
		_, err := s.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: made[0].GetId()})
		hidden(t, "the oldest", err)
		purge(&taskv1.PurgeTasksRequest{}, 2)
		if left, err := s.ListTasks(ctx, &taskv1.ListTasksRequest{}); err != nil || len(left.GetTasks()) != 1 {
			t.Errorf("left %v, %v", left.GetTasks(), err)
		}
	})
}

func schedules(t testkit.T, s *suite) {
	user, queue := unique("ana"), unique("q")
	ctx := as(t, user, "")
	plan := func(change func(*taskv1.Schedule)) *taskv1.CreateScheduleRequest {
		r := &taskv1.Schedule{
			Label: "tick", When: &taskv1.Schedule_Interval{Interval: durationpb.New(time.Second)}, OverlapPolicy: taskv1.OverlapPolicy_OVERLAP_POLICY_ALLOW,
			Template: &taskv1.TaskTemplate{Kind: "job", Queue: queue, Label: "tick", Input: &taskv1.TaskInput{Text: "work"}},
		}
		change(r)
		return &taskv1.CreateScheduleRequest{Schedule: r}
	}
	t.Run("an interval fires, as its maker", func(t testkit.T) {
		made, err := s.CreateSchedule(ctx, plan(func(*taskv1.Schedule) {}))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			one := s.lease(t, "w", queue, time.Minute)
			if one.GetScheduleId() != made.GetSchedule().GetId() || one.GetIdentity().GetUser() != user || one.GetInput().GetText() != "work" {
				t.Errorf("task %v", one)
			}
		}
		got, err := s.GetSchedule(ctx, &taskv1.GetScheduleRequest{ScheduleId: made.GetSchedule().GetId()})
		if err != nil || got.GetSchedule().GetFiredCount() < 2 || got.GetSchedule().GetNextFireTime() == nil {
			t.Errorf("schedule %v, %v", got, err)
		}
		if _, err := s.DeleteSchedule(ctx, &taskv1.DeleteScheduleRequest{ScheduleId: made.GetSchedule().GetId()}); err != nil {
			t.Errorf("DeleteSchedule: %v", err)
		}
		_, err = s.GetSchedule(ctx, &taskv1.GetScheduleRequest{ScheduleId: made.GetSchedule().GetId()})
		refused(t, "a deleted schedule", err, errdefs.ErrNotFound, "SCHEDULE_NOT_FOUND")
	})
	t.Run("cron with a zone, paused, changed and run by hand", func(t testkit.T) {
		made, err := s.CreateSchedule(ctx, plan(func(r *taskv1.Schedule) {
			r.When, r.TimeZone = &taskv1.Schedule_Cron{Cron: "30 9 * * 1-5"}, "Asia/Kathmandu"
		}))
		if err != nil {
			t.Fatal(err)
		}
		zone, err := time.LoadLocation("Asia/Kathmandu")
		if err != nil {
			t.Fatal(err)
		}
		if next := made.GetSchedule().GetNextFireTime().AsTime().In(zone); next.Hour() != 9 || next.Minute() != 30 || next.Weekday() == time.Sunday || next.Weekday() == time.Saturday {
			t.Errorf("fires next at %v", next)
		}
		id := made.GetSchedule().GetId()
		ran, err := s.RunScheduleNow(ctx, &taskv1.RunScheduleNowRequest{ScheduleId: id})
		if err != nil || s.lease(t, "w", queue, time.Minute).GetId() != ran.GetTask().GetId() {
			t.Errorf("RunScheduleNow: %v, %v", ran, err)
		}
		change := made.GetSchedule()
		change.Paused = true
		paused, err := s.UpdateSchedule(ctx, &taskv1.UpdateScheduleRequest{ScheduleId: id, Schedule: change, IfRevision: change.GetRevision()})
		if err != nil || paused.GetSchedule().GetNextFireTime() != nil {
			t.Errorf("UpdateSchedule: %v, %v", paused, err)
		}
		_, err = s.UpdateSchedule(ctx, &taskv1.UpdateScheduleRequest{ScheduleId: id, Schedule: change, IfRevision: change.GetRevision()})
		refused(t, "an old revision", err, errdefs.ErrAborted, "REVISION_CONFLICT")
	})
	t.Run("bad schedules", func(t testkit.T) {
		for name, change := range map[string]func(*taskv1.Schedule){
			"minute 61":         func(r *taskv1.Schedule) { r.When = &taskv1.Schedule_Cron{Cron: "61 * * * *"} },
			"six fields":        func(r *taskv1.Schedule) { r.When = &taskv1.Schedule_Cron{Cron: "* * * * * *"} },
			"never":             func(r *taskv1.Schedule) { r.When = &taskv1.Schedule_Cron{Cron: "0 0 30 2 *"} },
			"an @every":         func(r *taskv1.Schedule) { r.When = &taskv1.Schedule_Cron{Cron: "@every 1ms"} },
			"a zone in cron":    func(r *taskv1.Schedule) { r.When = &taskv1.Schedule_Cron{Cron: "CRON_TZ=UTC * * * * *"} },
			"no such zone":      func(r *taskv1.Schedule) { r.TimeZone = "Mars/Olympus" },
			"the server's zone": func(r *taskv1.Schedule) { r.TimeZone = "Local" },
			"no time":           func(r *taskv1.Schedule) { r.When = nil },
		} {
			_, err := s.CreateSchedule(ctx, plan(change))
			refused(t, name, err, errdefs.ErrInvalidArgument, "SCHEDULE_INVALID")
		}
		_, err := s.CreateSchedule(ctx, plan(func(r *taskv1.Schedule) { r.Template = nil }))
		refused(t, "no template", err, errdefs.ErrInvalidArgument, "")
		_, err = s.CreateSchedule(ctx, plan(func(r *taskv1.Schedule) {
			r.Template.ParentThread = &commonv1.Thread{Agent: "coder", User: "bob", Session: "s"}
		}))
		refused(t, "another user's mailbox", err, errdefs.ErrPermissionDenied, "THREAD_NOT_ALLOWED")
	})
	t.Run("nobody else's", func(t testkit.T) {
		made, err := s.CreateSchedule(ctx, plan(func(r *taskv1.Schedule) { r.Paused = true }))
		if err != nil {
			t.Fatal(err)
		}
		id, bob := made.GetSchedule().GetId(), as(t, unique("bob"), "")
		_, err = s.GetSchedule(bob, &taskv1.GetScheduleRequest{ScheduleId: id})
		refused(t, "GetSchedule", err, errdefs.ErrNotFound, "SCHEDULE_NOT_FOUND")
		_, err = s.DeleteSchedule(bob, &taskv1.DeleteScheduleRequest{ScheduleId: id})
		refused(t, "DeleteSchedule", err, errdefs.ErrNotFound, "SCHEDULE_NOT_FOUND")
		_, err = s.RunScheduleNow(bob, &taskv1.RunScheduleNowRequest{ScheduleId: id})
		refused(t, "RunScheduleNow", err, errdefs.ErrNotFound, "SCHEDULE_NOT_FOUND")
		_, err = s.UpdateSchedule(bob, &taskv1.UpdateScheduleRequest{ScheduleId: id, Schedule: made.GetSchedule()})
		refused(t, "UpdateSchedule", err, errdefs.ErrNotFound, "SCHEDULE_NOT_FOUND")
		if listed, err := s.ListSchedules(bob, &taskv1.ListSchedulesRequest{}); err != nil || len(listed.GetSchedules()) > 0 {
			t.Errorf("ListSchedules: %v, %v", listed, err)
		}
	})
}
