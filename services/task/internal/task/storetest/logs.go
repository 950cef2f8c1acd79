package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func logs(t testkit.T, open Factory) {
	t.Run("changes come in order, to their owner alone, and survive", func(t testkit.T) {
		f := open(t)
		var cursors []int64
		for i := range 6 {
			update(t, f.Store, func(tx task.Tx) error {
				owner := []string{"a", "b"}[i%2]
				cursor, err := tx.AddChange(task.Change{Owner: owner, Task: *row(name(i), owner), Purged: i == 4, Time: epoch.Add(time.Duration(i) * time.Second)})
				cursors = append(cursors, cursor)
				return err
			})
		}
		if !slices.IsSorted(cursors) || cursors[0] <= 0 {
			t.Errorf("cursors %v", cursors)
		}
		s := f.Reopen()
		view(t, s, func(tx task.ReadTx) error {
			got, err := tx.Changes("default", "a", cursors[0], 9)
			if len(got) != 2 || got[0].Task.ID != name(2) || got[1].Task.ID != name(4) || !got[1].Purged || got[0].Cursor != cursors[2] || got[1].Owner != "a" {
				t.Errorf("changes %+v", got)
			}
			if one, err := tx.Changes("default", "a", 0, 1); err != nil || len(one) != 1 {
				t.Errorf("limit 1: %v, %v", one, err)
			}
			if newest, pruned, err := tx.ChangeBounds(); err != nil || newest != cursors[5] || pruned != 0 {
				t.Errorf("bounds %d, %d, %v", newest, pruned, err)
			}
			return err
		})
		update(t, s, func(tx task.Tx) error {
			n, err := tx.PruneChanges(epoch.Add(3*time.Second), 2)
			if n != 2 {
				t.Errorf("pruned %d, want 2", n)
			}
			if n, err := tx.PruneChanges(epoch.Add(3*time.Second), 9); err != nil || n != 1 {
				t.Errorf("pruned %d, want 1 (%v)", n, err)
			}
			newest, pruned, err2 := tx.ChangeBounds()
			if err2 != nil || newest != cursors[5] || pruned != cursors[2] {
				t.Errorf("bounds %d, %d, %v", newest, pruned, err2)
			}
			return err
		})
		update(t, s, func(tx task.Tx) error {
			_, err := tx.PruneChanges(epoch.Add(time.Hour), 99)
			if err != nil {
				return err
			}
			cursor, err := tx.AddChange(task.Change{Owner: "a", Task: *row("t_9", "a"), Time: epoch})
			if cursor <= cursors[5] {
				t.Errorf("cursor %d was given before", cursor)
			}
			return err
		})
	})
	t.Run("effects", func(t testkit.T) {
		f := open(t)
		want := task.Effect{Bucket: "b", ID: "e1", Hash: []byte{1, 0}, Outcome: []byte{2, 0}, Time: epoch}
		update(t, f.Store, func(tx task.Tx) error { return tx.PutEffect(want) })
		view(t, f.Store, func(tx task.ReadTx) error {
			got, err := tx.Effect("b", "e1")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, key := range [][2]string{{"B", "e1"}, {"b", "E1"}, {"b", "e"}, {"", "e1"}} {
				if _, err := tx.Effect(key[0], key[1]); err != task.ErrNoRow {
					t.Errorf("effect %q: %v, want ErrNoRow", key, err)
				}
			}
			return err
		})
		update(t, f.Store, func(tx task.Tx) error {
			for before, want := range map[time.Time]int{epoch: 0, epoch.Add(1): 0} {
				if n, err := tx.PruneEffects(before.Truncate(time.Microsecond), 9); err != nil || n != want {
					t.Errorf("pruned %d of before %v (%v)", n, before, err)
				}
			}
			n, err := tx.PruneEffects(epoch.Add(time.Second), 9)
			if n != 1 {
				t.Errorf("pruned %d, want 1", n)
			}
			return err
		})
	})
	t.Run("mail is there once and until it is removed", func(t testkit.T) {
		f := open(t)
		var now time.Time
		view(t, f.Store, func(tx task.ReadTx) error { now = tx.Now(); return nil })
		mail := func(id string, at time.Duration) task.Mail {
			return task.Mail{MessageID: id, Tenant: "default", TaskID: "t_" + id, Thread: "th", Kind: "task_result", Payload: []byte{0, 1}, Wake: true, NextTime: now.Add(at)}
		}
		update(t, f.Store, func(tx task.Tx) error {
			for _, m := range []task.Mail{mail("b", -time.Second), mail("a", -time.Minute), mail("later", time.Hour), mail("b", -time.Hour)} {
				if err := tx.PutMail(m); err != nil {
					return err
				}
			}
			return nil
		})
		s := f.Reopen()
		view(t, s, func(tx task.ReadTx) error {
			got, next, err := tx.DueMail(9)
			if diff := cmp.Diff([]task.Mail{mail("a", -time.Minute), mail("b", -time.Second)}, got); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
			if !next.Equal(now.Add(time.Hour)) {
				t.Errorf("next %v", next)
			}
			return err
		})
		update(t, s, func(tx task.Tx) error {
			refused := mail("a", time.Minute)
			refused.Attempts, refused.LastError = 1, "gone"
			if err := tx.SaveMail(refused); err != nil {
				return err
			}
			if err := tx.DeleteMail("b", "default"); err != nil {
				return err
			}
			for id, want := range map[string]bool{"t_a": true, "t_b": false, "T_a": false} {
				if has, err := tx.HasMail("default", id); err != nil || has != want {
					t.Errorf("mail of %s: %v, %v", id, has, err)
				}
			}
			got, next, err := tx.DueMail(9)
			if len(got) != 0 || !next.Equal(now.Add(time.Minute)) {
				t.Errorf("due %v, next %v", got, next)
			}
			return err
		})
	})
}

func schedules(t testkit.T, open Factory) {
	f := open(t)
	var now time.Time
	view(t, f.Store, func(tx task.ReadTx) error { now = tx.Now(); return nil })
	made := make([]*task.Schedule, 3)
	update(t, f.Store, func(tx task.Tx) error {
		for i := range made {
			made[i] = &task.Schedule{
				Tenant: "default", ID: name(i), Owner: "o", Cron: "@daily", Zone: "Europe/Berlin", Identity: who("ana", ""), CreateTime: epoch, UpdateTime: epoch,
				Template: task.Template{Kind: "job", Input: &task.Input{Text: "in"}},
			}
		}
		made[0].Next, made[1].Next, made[2].Owner = now.Add(-time.Minute), now.Add(time.Minute), "O"
		for _, s := range made {
			if err := tx.InsertSchedule(s); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, f.Reopen(), func(tx task.ReadTx) error {
		got, err := tx.Schedule("default", name(1))
		if diff := cmp.Diff(*made[1], got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := tx.Schedule("Default", name(1)); err != task.ErrNoRow {
			t.Errorf("schedule of another tenant: %v", err)
		}
		own, err2 := tx.Schedules("default", "o", 0, 9)
		if err2 != nil || len(own) != 2 || own[0].ID != name(1) {
			t.Errorf("own schedules %+v, %v", own, err2)
		}
		if page, err := tx.Schedules("default", "o", made[1].Seq, 9); err != nil || len(page) != 1 || page[0].ID != name(0) {
			t.Errorf("page %+v, %v", page, err)
		}
		if due, err := tx.DueSchedules(9); err != nil || len(due) != 1 || due[0].ID != name(0) {
			t.Errorf("due %+v, %v", due, err)
		}
		if wake, err := tx.NextWake(); err != nil || !wake.Equal(now.Add(-time.Minute)) {
			t.Errorf("next wake %v, %v", wake, err)
		}
		return err
	})
}
