package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// engines checks that what the engine promises holds on this store: that it fences, isolates, loses nothing and does nothing twice.
func engines(t testkit.T, open Factory) {
	ana, bob := who("ana", "s1"), who("bob", "s1")

	t.Run("a lease that was lost is fenced", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		create(t, e, newTask(ana, "x"))
		old := lease(t, e, "w1")
		f.Advance(6 * time.Second)
		sweep(t, e)
		current := lease(t, e, "w1")
		if current.ID != old.ID || current.Epoch <= old.Epoch {
			t.Fatalf("leased %s with token %d after %s with %d", current.ID, current.Epoch, old.ID, old.Epoch)
		}
		_, err := finish(t, e, old, "stale")
		wantReason(t, "the old worker's answer", err, errdefs.ErrAborted, task.ReasonLeaseLost)
		beats, err := e.Heartbeat(t.Context(), workers, "w1", []task.Beat{{TaskID: old.ID, Token: old.Epoch}, {TaskID: current.ID, Token: current.Epoch}, {TaskID: "t_none"}})
		if err != nil || !beats[0].Lost || beats[1].Lost || !beats[2].Lost {
			t.Errorf("heartbeats: %+v, %v", beats, err)
		}
		if _, err := finish(t, e, current, "good"); err != nil {
			t.Errorf("the present worker's answer: %v", err)
		}
		if got := get(t, e, viewer(ana), old.ID); got.State != task.Completed || got.Result == nil || got.Result.Text != "good" {
			t.Errorf("state %s, result %+v", got.State, got.Result)
		}
	})
	t.Run("each task is leased by one worker", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		const n, crew = 60, 8
		for i := range n {
			create(t, e, newTask(ana, name(i)))
		}
		var (
			mu  sync.Mutex
			got = make(map[string]int)
			wg  sync.WaitGroup
		)
		for i := range crew {
			wg.Go(func() {
				for {
					leased, err := e.Lease(timeout(t), task.Claim{Tenant: identity.DefaultTenant, Worker: name(i), Max: 3, Life: time.Minute})
					if err != nil {
						t.Errorf("lease: %v", err)
					}
					if len(leased) == 0 {
						return
					}
					mu.Lock()
					for _, one := range leased {
						got[one.ID]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for id, times := range got {
			if times != 1 {
				t.Errorf("task %s was leased %d times", id, times)
			}
		}
		if len(got) != n {
			t.Errorf("%d tasks were leased, want %d", len(got), n)
		}
	})
	t.Run("nobody sees tasks of others", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		secret := create(t, e, newTask(ana, "secret"))
		stranger := viewer(bob)
		if _, err := e.Get(t.Context(), stranger, secret.ID); errdefs.ReasonOf(err) != task.ReasonNotFound {
			t.Errorf("get: %v", err)
		}
		if _, err := e.Cancel(t.Context(), stranger, "b", secret.ID, task.Call{}, ""); errdefs.ReasonOf(err) != task.ReasonNotFound {
			t.Errorf("cancel: %v", err)
		}
		listed, err := e.List(t.Context(), stranger, task.Query{Limit: 9})
		if err != nil || len(listed.Tasks) != 0 {
			t.Errorf("list: %v, %v", ids(listed.Tasks), err)
		}
		start := task.Cursor{Store: listed.Cursor.Store}
		if changed, err := e.Changes(t.Context(), stranger, start, "", 9); err != nil || len(changed.Changes) != 0 {
			t.Errorf("changes: %+v, %v", changed.Changes, err)
		}
		if changed, err := e.Changes(t.Context(), viewer(ana), start, "", 9); err != nil || len(changed.Changes) != 1 {
			t.Errorf("own changes: %+v, %v", changed.Changes, err)
		}
		child := newTask(bob, "child")
		child.ParentID = secret.ID
		if _, err := e.Create(t.Context(), child); errdefs.ReasonOf(err) != task.ReasonParentNotFound {
			t.Errorf("child of another's task: %v", err)
		}
		if purged, err := e.Purge(t.Context(), stranger, "b", task.Call{}, task.PurgeSpec{}); err != nil || purged.Purged != 0 {
			t.Errorf("purge: %+v, %v", purged, err)
		}
	})
	t.Run("the end of a task and the message for its parent are one", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		n := newTask(ana, "x")
		n.ParentThread = identity.Thread{Tenant: ana.Tenant, Agent: ana.Agent, User: ana.User, Session: "s1"}
		n.Delivery = task.DeliverWake
		one := create(t, e, n)
		if _, err := finish(t, e, lease(t, e, "w"), "done"); err != nil {
			t.Fatal(err)
		}
		e = engineOn(f.Reopen())
		box, err := e.DueMail(t.Context(), 9)
		if err != nil || len(box.Due) != 1 {
			t.Fatalf("outbox %+v, %v", box, err)
		}
		m := box.Due[0]
		if m.MessageID != task.MessageID(one.ID) || m.Thread != n.ParentThread.Key() || !m.Wake || string(m.Payload) != one.ID+" COMPLETED" {
			t.Errorf("mail %+v", m)
		}
		if purged, err := e.Purge(t.Context(), viewer(ana), "b", task.Call{}, task.PurgeSpec{}); err != nil || purged.Purged != 0 || purged.Kept != 1 {
			t.Errorf("purge before delivery: %+v, %v", purged, err)
		}
		if err := e.MailRefused(t.Context(), m, "gone", time.Minute); err != nil {
			t.Fatal(err)
		}
		if box, err := e.DueMail(t.Context(), 9); err != nil || len(box.Due) != 0 || box.Next.IsZero() {
			t.Errorf("after a refusal: %+v, %v", box, err)
		}
		if err := e.MailAccepted(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got := get(t, e, viewer(ana), one.ID); got.DeliveredTime.IsZero() {
			t.Error("the task does not say that it was delivered")
		}
		if purged, err := e.Purge(t.Context(), viewer(ana), "b", task.Call{}, task.PurgeSpec{}); err != nil || purged.Purged != 1 {
			t.Errorf("purge after delivery: %+v, %v", purged, err)
		}
	})
	t.Run("an effect happens once", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		var now time.Time
		view(t, f.Store, func(tx task.ReadTx) error { now = tx.Now(); return nil })
		n := newTask(ana, "x")
		n.Call = task.Call{Effect: effect.For(now, "one"), Hash: []byte("h")}
		var (
			mu   sync.Mutex
			made []string
			wg   sync.WaitGroup
		)
		for range 8 {
			wg.Go(func() {
				created, err := e.Create(timeout(t), n)
				if err != nil {
					t.Errorf("create: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				if !created.Duplicate {
					made = append(made, created.Task.ID)
				}
			})
		}
		wg.Wait()
		if len(made) != 1 {
			t.Errorf("created %v, want one", made)
		}
		other := n
		other.Call.Hash = []byte("other")
		_, err := e.Create(t.Context(), other)
		wantReason(t, "another request", err, errdefs.ErrAborted, task.ReasonEffectMismatch)
		f.Advance(7 * 24 * time.Hour)
		_, err = e.Create(t.Context(), n)
		wantReason(t, "an old effect", err, errdefs.ErrFailedPrecondition, task.ReasonEffectExpired)
	})
	t.Run("a cancel reaches everything below", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		root := create(t, e, newTask(ana, "root"))
		child := newTask(ana, "child")
		child.ParentID = root.ID
		running := create(t, e, child)
		for got := range 2 {
			_ = lease(t, e, name(got))
		}
		grand := newTask(ana, "grandchild")
		grand.ParentID = running.ID
		waiting := create(t, e, grand)
		out, err := e.Cancel(t.Context(), viewer(ana), "b", root.ID, task.Call{}, "enough")
		if err != nil || !out.Requested || out.Stopped || out.BelowRequested != 2 || out.BelowStopped != 1 {
			t.Errorf("cancel: %+v, %v", out, err)
		}
		if got := get(t, e, viewer(ana), waiting.ID); got.State != task.Cancelled || got.Fault.Reason != task.FaultParentEnded {
			t.Errorf("grandchild: %s %+v", got.State, got.Fault)
		}
		late := newTask(ana, "late")
		late.ParentID = root.ID
		_, err = e.Create(t.Context(), late)
		wantReason(t, "a child after the cancel", err, errdefs.ErrFailedPrecondition, task.ReasonParentEnded)
		f.Advance(31 * time.Second)
		sweep(t, e)
		for _, id := range []string{root.ID, running.ID} {
			if got := get(t, e, viewer(ana), id); got.State != task.Cancelled {
				t.Errorf("%s after the grace time: %s", got.Label, got.State)
			}
		}
	})
	t.Run("queues are bounded", func(t testkit.T) {
		f := open(t)
		small := limits
		small.LivePerOwner, small.LivePerTenant = 2, 3
		e := task.NewEngine(f.Store, small, encode)
		create(t, e, newTask(ana, "1"))
		create(t, e, newTask(ana, "2"))
		_, err := e.Create(t.Context(), newTask(ana, "3"))
		wantReason(t, "a third of an owner", err, errdefs.ErrResourceExhausted, task.ReasonQueueFull)
		create(t, e, newTask(bob, "1"))
		_, err = e.Create(t.Context(), newTask(bob, "2"))
		wantReason(t, "a fourth of a tenant", err, errdefs.ErrResourceExhausted, task.ReasonQueueFull)
		if _, err := finish(t, e, lease(t, e, "w"), "done"); err != nil {
			t.Fatal(err)
		}
		create(t, e, newTask(ana, "3"))
	})
	t.Run("retention by age and count", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		for i := range 6 {
			create(t, e, newTask(ana, name(i)))
			if _, err := finish(t, e, lease(t, e, "w"), "done"); err != nil {
				t.Fatal(err)
			}
			f.Advance(time.Hour)
		}
		left := func() []string {
			listed, err := e.List(t.Context(), viewer(ana), task.Query{Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			var labels []string
			for _, one := range listed.Tasks {
				labels = append(labels, one.Label)
			}
			return labels
		}
		retain := func(r task.Retention) {
			if _, err := e.Retain(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		retain(task.Retention{})
		if got := left(); len(got) != 6 {
			t.Errorf("without retention: %v", got)
		}
		retain(task.Retention{Age: 4*time.Hour + time.Minute})
		if got, want := left(), []string{name(5), name(4), name(3), name(2)}; !slices.Equal(got, want) {
			t.Errorf("by age: %v, want %v", got, want)
		}
		retain(task.Retention{Count: 3})
		if got, want := left(), []string{name(5), name(4), name(3)}; !slices.Equal(got, want) {
			t.Errorf("by count: %v, want %v", got, want)
		}
	})
	t.Run("a schedule fires once each time", func(t testkit.T) {
		f := open(t)
		e := engineOn(f.Store)
		made, err := e.CreateSchedule(t.Context(), task.Schedule{
			Identity: ana, Bucket: "b", Interval: time.Minute, Overlap: true, Template: task.Template{Kind: "job", Label: "tick"},
		}, "", task.Call{})
		if err != nil {
			t.Fatal(err)
		}
		sweep(t, e)
		for range 3 {
			f.Advance(time.Minute)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := e.Sweep(timeout(t)); err != nil {
						t.Errorf("sweep: %v", err)
					}
				})
			}
			wg.Wait()
		}
		listed, err := e.List(t.Context(), viewer(ana), task.Query{Limit: 9, ScheduleID: made.Schedule.ID})
		if err != nil || len(listed.Tasks) != 3 {
			t.Errorf("%d tasks, want 3 (%v)", len(listed.Tasks), err)
		}
		got, err := e.GetSchedule(t.Context(), viewer(ana), made.Schedule.ID)
		if err != nil || got.Fired != 3 || got.Skipped != 0 {
			t.Errorf("schedule %+v, %v", got, err)
		}
		if _, err := e.GetSchedule(t.Context(), viewer(bob), made.Schedule.ID); errdefs.ReasonOf(err) != task.ReasonScheduleNotFound {
			t.Errorf("another's schedule: %v", err)
		}
	})
}
