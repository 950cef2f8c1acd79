package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func transactions(t testkit.T, open Factory) {
	t.Run("what was acknowledged is there after the store is opened again", func(t testkit.T) {
		f := open(t)
		one := row("t_1", "o")
		one.Input = &task.Input{Text: "in", Data: []byte{1, 0, 2}, Bytes: []byte{0, 255}}
		insert(t, f.Store, one)
		update(t, f.Store, func(tx task.Tx) error {
			got, err := tx.Task("default", "t_1", task.Bare)
			if err != nil {
				return err
			}
			got.State, got.EndTime, got.Result = task.Completed, epoch, &task.Result{Text: "out"}
			return tx.Save(&got, time.Time{})
		})
		var before, after string
		view(t, f.Store, func(tx task.ReadTx) error { before = tx.StoreID(); return nil })
		reopened := f.Reopen()
		view(t, reopened, func(tx task.ReadTx) error {
			after = tx.StoreID()
			got, err := tx.Task("default", "t_1", task.WithInput|task.WithResult)
			if err != nil {
				return err
			}
			if got.State != task.Completed || got.Input == nil || got.Input.Text != "in" || string(got.Input.Bytes) != "\x00\xff" || got.Result == nil || got.Result.Text != "out" {
				t.Errorf("got %+v, input %+v, result %+v", got, got.Input, got.Result)
			}
			return nil
		})
		if before == "" || before != after {
			t.Errorf("the store's id was %q and is %q", before, after)
		}
	})
	t.Run("an error undoes everything, and is returned as it is", func(t testkit.T) {
		f := open(t)
		heard := listen(t, f.Store)
		err := f.Store.Update(t.Context(), func(tx task.Tx) error {
			if err := tx.Insert(row("t_1", "o"), epoch); err != nil {
				return err
			}
			if _, err := tx.AddChange(task.Change{Owner: "o", Task: *row("t_1", "o"), Time: epoch}); err != nil {
				return err
			}
			tx.Signal(task.Signal{Kind: task.SignalReady, TaskID: "t_1"})
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Fatalf("error %v, want the one of the function", err)
		}
		view(t, f.Store, func(tx task.ReadTx) error {
			if _, err := tx.Task("default", "t_1", task.Bare); err != task.ErrNoRow {
				t.Errorf("the task: %v, want ErrNoRow", err)
			}
			if changes, err := tx.Changes("default", "o", 0, 10); err != nil || len(changes) > 0 {
				t.Errorf("changes %v, %v", changes, err)
			}
			if n, err := tx.CountLive("default", "o", 10); err != nil || n != 0 {
				t.Errorf("%d live tasks, %v", n, err)
			}
			return nil
		})
		if got := heard(); len(got) > 0 {
			t.Errorf("signals of a transaction that failed: %v", got)
		}
	})
	t.Run("a panic undoes everything and reaches the caller", func(t testkit.T) {
		f := open(t)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = f.Store.Update(t.Context(), func(tx task.Tx) error {
				_ = tx.Insert(row("t_1", "o"), time.Time{})
				panic("boom")
			})
		}()
		insert(t, f.Store, row("t_1", "o"))
	})
	t.Run("a transaction sees its own writes", func(t testkit.T) {
		f := open(t)
		update(t, f.Store, func(tx task.Tx) error {
			if err := tx.Insert(row("t_1", "o"), time.Time{}); err != nil {
				return err
			}
			if _, err := tx.Task("default", "t_1", task.Bare); err != nil {
				t.Errorf("its own task: %v", err)
			}
			return nil
		})
	})
	t.Run("nobody overwrites what it has not seen", func(t testkit.T) {
		f := open(t)
		insert(t, f.Store, row("t_1", "o"))
		const writers, each = 8, 25
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := f.Store.Update(timeout(t), func(tx task.Tx) error {
						one, err := tx.Task("default", "t_1", task.Bare)
						if err != nil {
							return err
						}
						one.Revision++
						return tx.Save(&one, time.Time{})
					}); err != nil {
						t.Errorf("update: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		view(t, f.Store, func(tx task.ReadTx) error {
			one, err := tx.Task("default", "t_1", task.Bare)
			if err == nil && one.Revision != 1+writers*each {
				t.Errorf("revision %d, want %d", one.Revision, 1+writers*each)
			}
			return err
		})
	})
	t.Run("one that fails does not take others with it", func(t testkit.T) {
		f := open(t)
		const n = 40
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				err := f.Store.Update(timeout(t), func(tx task.Tx) error {
					if err := tx.Insert(row(name(i), "o"), time.Time{}); err != nil {
						return err
					}
					if i%2 == 0 {
						return errUndo
					}
					return nil
				})
				if (i%2 == 0) != errors.Is(err, errUndo) {
					t.Errorf("transaction %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		view(t, f.Store, func(tx task.ReadTx) error {
			found, err := tx.List(task.Query{Tenant: "default", Owner: "o", Limit: n})
			if len(found) != n/2 {
				t.Errorf("%d tasks, want %d", len(found), n/2)
			}
			return err
		})
	})
	t.Run("signals come after the fact", func(t testkit.T) {
		f := open(t)
		found := make(chan error, 1)
		stop := f.Store.Listen(func(s task.Signal) {
			if s.TaskID == "t_1" {
				go func() {
					found <- f.Store.View(context.Background(), func(tx task.ReadTx) error {
						_, err := tx.Task("default", "t_1", task.Bare)
						return err
					})
				}()
			}
		})
		update(t, f.Store, func(tx task.Tx) error {
			tx.Signal(task.Signal{Kind: task.SignalReady, TaskID: "t_1"})
			return tx.Insert(row("t_1", "o"), time.Time{})
		})
		select {
		case err := <-found:
			if err != nil {
				t.Errorf("what the signal is about: %v", err)
			}
		case <-timeout(t).Done():
			t.Fatal("no signal")
		}
		stop()
		heard := listen(t, f.Store)
		stop()
		update(t, f.Store, func(tx task.Tx) error { tx.Signal(task.Signal{Kind: task.SignalMail, TaskID: "t_1"}); return nil })
		if got := heard(); len(got) != 1 {
			t.Errorf("signals %v, want one", got)
		}
	})
	t.Run("the clock is the store's, in UTC to the microsecond, and stands still within a transaction", func(t testkit.T) {
		f := open(t)
		var first time.Time
		update(t, f.Store, func(tx task.Tx) error {
			first = tx.Now()
			if again := tx.Now(); !first.Equal(again) || first.Location() != time.UTC || !first.Equal(first.Truncate(time.Microsecond)) {
				t.Errorf("now %v and %v", first, again)
			}
			return nil
		})
		f.Advance(time.Hour)
		view(t, f.Store, func(tx task.ReadTx) error {
			if passed := tx.Now().Sub(first); passed < time.Hour {
				t.Errorf("%s passed, want an hour", passed)
			}
			return nil
		})
	})
	t.Run("a caller that has gone waits no more", func(t testkit.T) {
		f := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Store.View(ctx, func(task.ReadTx) error { return nil }); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("view: %v", err)
		}
		if err := f.Store.Update(ctx, func(tx task.Tx) error { return tx.Insert(row("t_1", "o"), time.Time{}) }); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("update: %v", err)
		}
	})
	t.Run("a closed store says so", func(t testkit.T) {
		f := open(t)
		for range 2 {
			if err := f.Store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		nothing := func(task.ReadTx) error { return nil }
		wantReason(t, "view", f.Store.View(timeout(t), nothing), errdefs.ErrUnavailable, task.ReasonStoreUnavailable)
		wantReason(t, "update", f.Store.Update(timeout(t), func(task.Tx) error { return nil }), errdefs.ErrUnavailable, task.ReasonStoreUnavailable)
	})
}

// listen collects signals until the returned function is called, which returns them.
func listen(t testing.TB, s task.Store) func() []task.Signal {
	var (
		mu    sync.Mutex
		heard []task.Signal
	)
	stop := s.Listen(func(signal task.Signal) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, signal)
	})
	t.Cleanup(stop)
	return func() []task.Signal {
		mu.Lock()
		defer mu.Unlock()
		return heard
	}
}
