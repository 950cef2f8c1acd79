package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func name(i int) string { return fmt.Sprintf("t_%04d", i) }

// hostile are texts that stores and queries have stumbled over.
var hostile = []string{
	"a", "A", "ä", "a\u0308", "a'b", `a"b`, "a;DROP TABLE tasks;--", "a%", "a_", "../a", "a/b", "a\\b", "a b", " a", "a ", "日本", "🙂", "a\u200b", "NULL", "0", "a\x01b",
}

func rows(t testkit.T, open Factory) {
	t.Run("a task comes back as it was stored", func(t testkit.T) {
		f := open(t)
		want := row("t_1", "o")
		want.Capability, want.Label, want.Priority, want.CancelAsked, want.CancelTime, want.CancelReason = "sandbox", "näme", 3, true, epoch, "why"
		want.Grant = task.Grant{Verbs: []string{"fs.read"}, Prefixes: []string{"plans"}, Limited: true}
		want.ParentID, want.RootID, want.RootOwner, want.Depth = "t_0", "t_0", "o2", 1
		want.ParentThread = identity.Thread{Tenant: "default", Agent: "coder", User: "ana", Session: "s/1"}
		want.ChildThread = identity.Thread{Tenant: "default", Agent: "reviewer", User: "ana", Session: "s2"}
		want.Fault, want.Backoff = task.Fault{Reason: "r", Message: "m", Retryable: true}, task.Backoff{Initial: time.Second, Max: time.Hour}
		want.NotBefore, want.Deadline = epoch.Add(time.Minute), epoch.Add(time.Hour)
		want.Budget, want.Progress = task.Budget{Steps: 1, Tokens: 2, CostMicros: 3}, task.Progress{Steps: 1, Percent: 50, Message: "m", Tail: "t", Time: epoch}
		want.Epoch, want.Lease, want.Interrupted = 7, task.Lease{Worker: "w", Expire: epoch, Life: time.Second, Resumed: true}, true
		want.Wait = task.WaitingFor{Interactions: []task.Interaction{{ID: "i", Expire: epoch, Raw: []byte{1, 2}}}, Resume: epoch, OnChild: true, Since: epoch}
		want.Answers = []task.Answer{{InteractionID: "i", Decision: "approve", Texts: []string{"x"}, Data: []byte{3}, Actor: "ana", Time: epoch}}
		want.ChildEnded, want.LastCall, want.Request = true, []byte{9}, task.RequestMark{ID: "r", Hash: []byte{8}}
		want.StartTime, want.RetryOf, want.ScheduleID, want.Annotations = epoch, "t_9", "s_1", map[string]string{"k": "v"}
		insert(t, f.Store, want)
		view(t, f.Store, func(tx task.ReadTx) error {
			got, err := tx.Task("default", "t_1", task.Bare)
			if diff := cmp.Diff(*want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return err
		})
	})
	t.Run("input and result are read when they are asked for, and a save without result keeps it", func(t testkit.T) {
		f := open(t)
		one := row("t_1", "o")
		one.Input = &task.Input{Text: "in"}
		insert(t, f.Store, one)
		save := func(result *task.Result) {
			update(t, f.Store, func(tx task.Tx) error {
				got, err := tx.Task("default", "t_1", task.Bare)
				if err != nil {
					return err
				}
				got.Result = result
				return tx.Save(&got, time.Time{})
			})
		}
		save(&task.Result{Text: "out", FullTextBytes: 7})
		save(nil)
		for _, tt := range []struct {
			parts         task.Parts
			input, result bool
		}{{task.Bare, false, false}, {task.WithInput, true, false}, {task.WithResult, false, true}, {task.WithInput | task.WithResult, true, true}} {
			view(t, f.Store, func(tx task.ReadTx) error {
				got, err := tx.Task("default", "t_1", tt.parts)
				if (got.Input != nil) != tt.input || (got.Result != nil) != tt.result {
					t.Errorf("parts %d: input %v, result %v", tt.parts, got.Input, got.Result)
				}
				return err
			})
		}
	})
	t.Run("ids, owners and labels are data, compared byte by byte", func(t testkit.T) {
		f := open(t)
		for i, text := range hostile {
			one := row(text, text)
			one.Label, one.Queue, one.Capability, one.Kind = text, text, text, text
			one.Seq = int64(i)
			insert(t, f.Store, one)
		}
		update(t, f.Store, func(tx task.Tx) error {
			for _, text := range hostile {
				if got, err := tx.Task("default", text, task.Bare); err != nil || got.ID != text {
					t.Errorf("task %q: %q, %v", text, got.ID, err)
				}
				if found, err := tx.List(task.Query{Tenant: "default", Owner: text, Label: text, Kind: text, Limit: 9}); err != nil || !slices.Equal(ids(found), []string{text}) {
					t.Errorf("list of owner %q: %q, %v", text, ids(found), err)
				}
				if found, err := tx.Ready("default", text, text, 9); err != nil || !slices.Equal(ids(found), []string{text}) {
					t.Errorf("queue %q: %q, %v", text, ids(found), err)
				}
				if n, err := tx.CountLive("default", text, 9); err != nil || n != 1 {
					t.Errorf("live of %q: %d, %v", text, n, err)
				}
			}
			return nil
		})
	})
	t.Run("tenants share nothing", func(t testkit.T) {
		f := open(t)
		a, b := row("t_1", "oa"), row("t_1", "ob")
		b.Tenant = "Default"
		insert(t, f.Store, a, b)
		update(t, f.Store, func(tx task.Tx) error {
			got, err := tx.Task("Default", "t_1", task.Bare)
			if err != nil || got.Owner != "ob" {
				t.Errorf("task of the other tenant: owner %q, %v", got.Owner, err)
			}
			found, err := tx.Ready("default", "default", "", 9)
			if err != nil || len(found) != 1 || found[0].Owner != "oa" {
				t.Errorf("ready: %v, %v", found, err)
			}
			if found, err := tx.List(task.Query{Tenant: "default", Owner: "ob", Limit: 9}); err != nil || len(found) != 0 {
				t.Errorf("list across tenants: %v, %v", ids(found), err)
			}
			return nil
		})
	})
	t.Run("a deleted task is gone with its parts", func(t testkit.T) {
		f := open(t)
		one := row("t_1", "o")
		one.State, one.EndTime, one.Input = task.Completed, epoch, &task.Input{Text: "secret"}
		insert(t, f.Store, one)
		update(t, f.Store, func(tx task.Tx) error { return tx.Delete(one) })
		again := row("t_1", "o")
		insert(t, f.Store, again)
		view(t, f.Store, func(tx task.ReadTx) error {
			got, err := tx.Task("default", "t_1", task.WithInput)
			if got.Input != nil {
				t.Errorf("a new task has the input of a deleted one: %v", got.Input)
			}
			if again.Seq <= one.Seq {
				t.Errorf("sequence %d after %d", again.Seq, one.Seq)
			}
			return err
		})
	})
	t.Run("an id exists once", func(t testkit.T) {
		f := open(t)
		insert(t, f.Store, row("t_1", "o"))
		if err := f.Store.Update(t.Context(), func(tx task.Tx) error { return tx.Insert(row("t_1", "o"), time.Time{}) }); err == nil {
			t.Error("a second task of the same id was stored")
		}
	})
}

func lists(t testkit.T, open Factory) {
	f := open(t)
	var tasks []*task.Task
	for i := range 20 {
		one := row(name(i), "o")
		switch {
		case i%4 == 1:
			one.State, one.EndTime = task.Completed, epoch.Add(time.Duration(i)*time.Second)
		case i%4 == 2:
			one.State, one.Label = task.Waiting, "blue"
		case i%4 == 3:
			one.RootOwner, one.RootID, one.ParentID, one.Owner = "o", name(0), name(0), "other"
		}
		if i == 5 {
			one.Kind, one.ScheduleID = "memory_flush", "s_1"
			one.ParentThread = identity.Thread{Tenant: "default", Agent: "a", User: "u", Session: "s"}
		}
		tasks = append(tasks, one)
	}
	tasks = append(tasks, row("foreign", "somebody"))
	insert(t, f.Store, tasks...)
	tests := map[string]struct {
		query task.Query
		want  []int
	}{
		"own tasks and those below them": {task.Query{Limit: 4}, []int{19, 18, 17, 16}},
		"the next page":                  {task.Query{Limit: 4, Before: tasks[16].Seq}, []int{15, 14, 13, 12}},
		"by state":                       {task.Query{Limit: 3, States: []task.State{task.Completed}}, []int{17, 13, 9}},
		"by live states":                 {task.Query{Limit: 3, States: []task.State{task.Pending, task.Waiting}}, []int{19, 18, 16}},
		"by label":                       {task.Query{Limit: 2, Label: "blue"}, []int{18, 14}},
		"by parent":                      {task.Query{Limit: 2, ParentID: name(0)}, []int{19, 15}},
		"by tree":                        {task.Query{Limit: 9, RootID: name(0)}, []int{19, 15, 11, 7, 3, 0}},
		"by thread":                      {task.Query{Limit: 9, ParentThread: tasks[5].ParentThread.Key()}, []int{5}},
		"by kind":                        {task.Query{Limit: 9, Kind: "memory_flush"}, []int{5}},
		"by schedule":                    {task.Query{Limit: 9, ScheduleID: "s_1"}, []int{5}},
		"filters add up":                 {task.Query{Limit: 9, Label: "blue", Kind: "memory_flush"}, nil},
	}
	for what, tt := range tests {
		t.Run(what, func(t testkit.T) {
			tt.query.Tenant, tt.query.Owner = "default", "o"
			view(t, f.Store, func(tx task.ReadTx) error {
				got, err := tx.List(tt.query)
				want := make([]string, 0, len(tt.want))
				for _, i := range tt.want {
					want = append(want, name(i))
				}
				if !slices.Equal(ids(got), want) {
					t.Errorf("got %v, want %v", ids(got), want)
				}
				return err
			})
		})
	}
	t.Run("the owner of a task in the middle sees it", func(t testkit.T) {
		view(t, f.Store, func(tx task.ReadTx) error {
			got, err := tx.List(task.Query{Tenant: "default", Owner: "other", Limit: 9})
			if want := []string{name(19), name(15), name(11), name(7), name(3)}; !slices.Equal(ids(got), want) {
				t.Errorf("got %v, want %v", ids(got), want)
			}
			return err
		})
	})
	t.Run("ended tasks, the last first", func(t testkit.T) {
		update(t, f.Store, func(tx task.Tx) error {
			for _, tt := range []struct {
				query task.PurgeQuery
				want  []string
			}{
				{task.PurgeQuery{Tenant: "default", Owner: "o", Limit: 9}, []string{name(17), name(13), name(9), name(5), name(1)}},
				{task.PurgeQuery{Tenant: "default", Owner: "o", Skip: 3, Limit: 9}, []string{name(5), name(1)}},
				{task.PurgeQuery{EndedBefore: epoch.Add(9 * time.Second), Limit: 9}, []string{name(5), name(1)}},
				{task.PurgeQuery{Tenant: "default", Owner: "somebody", Limit: 9}, []string{}},
			} {
				got, err := tx.Purgeable(tt.query)
				if err != nil || !slices.Equal(ids(got), tt.want) {
					t.Errorf("%+v: got %v, want %v (%v)", tt.query, ids(got), tt.want, err)
				}
			}
			for keep, want := range map[int][]string{4: {"o"}, 5: nil} {
				if got, err := tx.Crowded(keep, 9); err != nil || !slices.Equal(got, want) {
					t.Errorf("owners with more than %d: %v, %v", keep, got, err)
				}
			}
			return nil
		})
	})
}
