package storetest

import (
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func queues(t testkit.T, open Factory) {
	t.Run("ready tasks by priority and age", func(t testkit.T) {
		f := open(t)
		var tasks []*task.Task
		for i, p := range []struct {
			priority int
			age      time.Duration
		}{{0, 10 * time.Second}, {0, 20 * time.Second}, {1, 0}, {9, 0}, {0, 2 * time.Minute}} {
			one := row(name(i), "o")
			one.Priority, one.CreateTime = p.priority, epoch.Add(-p.age)
			tasks = append(tasks, one)
		}
		later, running, ended := row("later", "o"), row("running", "o"), row("ended", "o")
		later.NotBefore = epoch.Add(time.Hour)
		running.State, running.Lease.Worker = task.Running, "w"
		ended.State, ended.EndTime = task.Failed, epoch
		insert(t, f.Store, append(tasks, later, running, ended)...)
		update(t, f.Store, func(tx task.Tx) error {
			got, err := tx.Ready("default", "default", "", 9)
			// A step of priority counts as a minute of age, so the one that is two minutes old goes before priority 1.
			if want := []string{name(3), name(4), name(2), name(1), name(0)}; !slices.Equal(ids(got), want) {
				t.Errorf("got %v, want %v", ids(got), want)
			}
			if got, err := tx.Ready("default", "default", "", 2); err != nil || len(got) != 2 {
				t.Errorf("limit 2: %v, %v", ids(got), err)
			}
			return err
		})
	})
	t.Run("queues and capabilities are apart, and the input comes along", func(t testkit.T) {
		f := open(t)
		plain, needs, other := row("plain", "o"), row("needs", "o"), row("other", "o")
		needs.Capability, other.Queue = "sandbox", "slow"
		plain.Input = &task.Input{Text: "in"}
		insert(t, f.Store, plain, needs, other)
		update(t, f.Store, func(tx task.Tx) error {
			for _, tt := range []struct{ queue, capability, want string }{{"default", "", "plain"}, {"default", "sandbox", "needs"}, {"slow", "", "other"}} {
				got, err := tx.Ready("default", tt.queue, tt.capability, 9)
				if err != nil || !slices.Equal(ids(got), []string{tt.want}) {
					t.Errorf("%+v: %v, %v", tt, ids(got), err)
				}
				if tt.want == "plain" && len(got) == 1 && (got[0].Input == nil || got[0].Input.Text != "in") {
					t.Errorf("input %v", got[0].Input)
				}
			}
			return nil
		})
	})
	t.Run("wake times", func(t testkit.T) {
		f := open(t)
		var now time.Time
		view(t, f.Store, func(tx task.ReadTx) error { now = tx.Now(); return nil })
		update(t, f.Store, func(tx task.Tx) error {
			for i, in := range []time.Duration{time.Hour, time.Minute, -time.Minute, -time.Hour, 0} {
				if err := tx.Insert(row(name(i), "o"), now.Add(in)); err != nil {
					return err
				}
			}
			return tx.Insert(row("never", "o"), time.Time{})
		})
		view(t, f.Store, func(tx task.ReadTx) error {
			got, err := tx.Due(9)
			if want := []string{name(3), name(2), name(4)}; !slices.Equal(ids(got), want) {
				t.Errorf("due %v, want %v", ids(got), want)
			}
			if wake, err := tx.NextWake(); err != nil || !wake.Equal(now.Add(-time.Hour)) {
				t.Errorf("next wake %v, %v", wake, err)
			}
			return err
		})
		update(t, f.Store, func(tx task.Tx) error {
			for _, i := range []int{2, 3, 4} {
				one, err := tx.Task("default", name(i), task.Bare)
				if err != nil {
					return err
				}
				if err := tx.Save(&one, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, f.Store, func(tx task.ReadTx) error {
			wake, err := tx.NextWake()
			if !wake.Equal(now.Add(time.Minute)) {
				t.Errorf("next wake %v, want %v", wake, now.Add(time.Minute))
			}
			return err
		})
	})
	t.Run("live tasks are counted, and children found while they live", func(t testkit.T) {
		f := open(t)
		parent, child, dead := row("parent", "o"), row("child", "o2"), row("dead", "o")
		child.ParentID, dead.ParentID = "parent", "parent"
		dead.State, dead.EndTime = task.Cancelled, epoch
		insert(t, f.Store, parent, child, dead)
		count := func(owner string) (n int) {
			view(t, f.Store, func(tx task.ReadTx) (err error) { n, err = tx.CountLive("default", owner, 99); return err })
			return n
		}
		if o, o2, all := count("o"), count("o2"), count(""); o != 1 || o2 != 1 || all != 2 {
			t.Errorf("live: %d, %d, all %d; want 1, 1, 2", o, o2, all)
		}
		update(t, f.Store, func(tx task.Tx) error {
			got, err := tx.Children("default", "parent")
			if err != nil || !slices.Equal(ids(got), []string{"child"}) {
				t.Errorf("children %v, %v", ids(got), err)
			}
			if none, err := tx.Children("default", ""); err != nil || len(none) > 0 {
				t.Errorf("children of nothing: %v, %v", ids(none), err)
			}
			got[0].State, got[0].EndTime = task.Completed, epoch
			for range 2 {
				if err := tx.Save(&got[0], time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if o2, all := count("o2"), count(""); o2 != 0 || all != 1 {
			t.Errorf("live after the end: %d, all %d; want 0, 1", o2, all)
		}
	})
}
