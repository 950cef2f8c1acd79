package storetest_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/task/internal/task"
	"github.com/gantry-agents/gantry/services/task/internal/task/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// fault spoils the transactions of a store.
type fault struct {
	task.Store
	spoil func(task.Tx) task.Tx
	// after is called when a transaction's function has returned, and may change its error.
	after func(error) error
}

func (f *fault) Update(ctx context.Context, fn func(task.Tx) error) error {
	var returned error
	err := f.Store.Update(ctx, func(tx task.Tx) error {
		returned = fn(f.spoil(tx))
		if f.after != nil {
			return f.after(returned)
		}
		return returned
	})
	return errors.Join(err, returned)
}

func (f *fault) View(ctx context.Context, fn func(task.ReadTx) error) error {
	return f.Store.View(ctx, func(tx task.ReadTx) error { return fn(f.spoil(readOnly{ReadTx: tx})) })
}

// readOnly gives a reading transaction the methods of a writing one; none of them is called.
type readOnly struct {
	task.ReadTx
	task.Tx
}

func (r readOnly) Now() time.Time  { return r.ReadTx.Now() }
func (r readOnly) StoreID() string { return r.ReadTx.StoreID() }
func (r readOnly) Task(tenant, id string, parts task.Parts) (task.Task, error) {
	return r.ReadTx.Task(tenant, id, parts)
}
func (r readOnly) List(q task.Query) ([]task.Task, error) { return r.ReadTx.List(q) }
func (r readOnly) CountLive(tenant, owner string, atMost int) (int, error) {
	return r.ReadTx.CountLive(tenant, owner, atMost)
}
func (r readOnly) Due(limit int) ([]task.Task, error) { return r.ReadTx.Due(limit) }
func (r readOnly) NextWake() (time.Time, error)       { return r.ReadTx.NextWake() }
func (r readOnly) Effect(bucket, id string) (task.Effect, error) {
	return r.ReadTx.Effect(bucket, id)
}
func (r readOnly) Changes(tenant, owner string, after int64, limit int) ([]task.Change, error) {
	return r.ReadTx.Changes(tenant, owner, after, limit)
}
func (r readOnly) ChangeBounds() (newest, pruned int64, err error) { return r.ReadTx.ChangeBounds() }
func (r readOnly) DueMail(limit int) ([]task.Mail, time.Time, error) {
	return r.ReadTx.DueMail(limit)
}
func (r readOnly) Schedule(tenant, id string) (task.Schedule, error) {
	return r.ReadTx.Schedule(tenant, id)
}
func (r readOnly) Schedules(tenant, owner string, before int64, limit int) ([]task.Schedule, error) {
	return r.ReadTx.Schedules(tenant, owner, before, limit)
}
func (r readOnly) DueSchedules(limit int) ([]task.Schedule, error) {
	return r.ReadTx.DueSchedules(limit)
}

// The faults. Each embeds a transaction and spoils one method.
type (
	oldTokens struct{ task.Tx }
	dropsSome struct {
		task.Tx
		saves *atomic.Int64
	}
	allOwners struct {
		task.Tx
		owners *sync.Map
	}
	noEffects     struct{ task.Tx }
	noMail        struct{ task.Tx }
	anyCapability struct{ task.Tx }
	foldedIDs     struct{ task.Tx }
	earlySignals  struct {
		task.Tx
		fn func(task.Signal)
	}
	stuckClock struct {
		task.Tx
		now time.Time
	}
	noWake         struct{ task.Tx }
	repeatedCursor struct{ task.Tx }
	lostInput      struct{ task.Tx }
	uncounted      struct{ task.Tx }
)

func (x oldTokens) Save(t *task.Task, wake time.Time) error {
	c := *t
	c.Epoch = min(c.Epoch, 1)
	return x.Tx.Save(&c, wake)
}

func (x dropsSome) Save(t *task.Task, wake time.Time) error {
	if x.saves.Add(1)%3 == 0 {
		return nil
	}
	return x.Tx.Save(t, wake)
}

func (x allOwners) Insert(t *task.Task, wake time.Time) error {
	x.owners.Store(t.Owner, true)
	return x.Tx.Insert(t, wake)
}

func (x allOwners) List(q task.Query) (all []task.Task, err error) {
	x.owners.Range(func(owner, _ any) bool {
		var some []task.Task
		q.Owner = owner.(string)
		some, err = x.Tx.List(q)
		all = append(all, some...)
		return err == nil
	})
	return all, err
}

func (noEffects) PutEffect(task.Effect) error { return nil }
func (noMail) PutMail(task.Mail) error        { return nil }

func (x anyCapability) Ready(tenant, queue, capability string, limit int) ([]task.Task, error) {
	if capability == "" {
		capability = "sandbox"
	}
	return x.Tx.Ready(tenant, queue, capability, limit)
}

func (x foldedIDs) Insert(t *task.Task, wake time.Time) error {
	c := *t
	c.ID = strings.ToLower(c.ID)
	err := x.Tx.Insert(&c, wake)
	t.Seq = c.Seq
	return err
}

func (x foldedIDs) Task(tenant, id string, parts task.Parts) (task.Task, error) {
	return x.Tx.Task(tenant, strings.ToLower(id), parts)
}

func (x earlySignals) Signal(s task.Signal) {
	if x.fn != nil {
		x.fn(s)
	}
}

func (x stuckClock) Now() time.Time                   { return x.now }
func (x noWake) Save(t *task.Task, _ time.Time) error { return x.Tx.Save(t, time.Time{}) }
func (x repeatedCursor) AddChange(c task.Change) (int64, error) {
	_, err := x.Tx.AddChange(c)
	return 1, err
}
func (x lostInput) Insert(t *task.Task, wake time.Time) error {
	input := t.Input
	t.Input = nil
	err := x.Tx.Insert(t, wake)
	t.Input = input
	return err
}
func (x uncounted) CountLive(string, string, int) (int, error) { return 0, nil }

// eager hands signals out at once.
type eager struct {
	fault
	mu sync.Mutex
	fn func(task.Signal)
}

func (e *eager) Listen(fn func(task.Signal)) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fn = fn
	return func() {}
}

func reference(tb testing.TB) storetest.Fixture {
	path := filepath.Join(tb.TempDir(), "tasks.db")
	var (
		mu  sync.Mutex
		now = time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)
	)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	open := func() *sqlite.Store {
		s, err := sqlite.Open(context.Background(), sqlite.Config{Path: path, Now: clock})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	return storetest.Fixture{
		Store:   s,
		Advance: func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) },
		Reopen:  func() task.Store { s.Close(); s = open(); return s },
	}
}

// TestSuiteNoticesFaults runs the suite against stores that are broken on purpose. A suite that passes on one of them would let the same mistake through in a real backend.
func TestSuiteNoticesFaults(t *testing.T) {
	spoiled := func(spoil func() func(task.Tx) task.Tx) storetest.Factory {
		return func(tb testing.TB) storetest.Fixture {
			f := reference(tb)
			wrap := spoil()
			inner := f.Reopen
			f.Store = &fault{Store: f.Store, spoil: wrap}
			f.Reopen = func() task.Store { return &fault{Store: inner(), spoil: wrap} }
			return f
		}
	}
	simple := func(wrap func(task.Tx) task.Tx) storetest.Factory {
		return spoiled(func() func(task.Tx) task.Tx { return wrap })
	}
	faults := map[string]storetest.Factory{
		"ignores the fencing token": simple(func(tx task.Tx) task.Tx { return oldTokens{tx} }),
		"drops writes": spoiled(func() func(task.Tx) task.Tx {
			saves := new(atomic.Int64)
			return func(tx task.Tx) task.Tx { return dropsSome{tx, saves} }
		}),
		"ignores the owner": spoiled(func() func(task.Tx) task.Tx {
			owners := new(sync.Map)
			return func(tx task.Tx) task.Tx { return allOwners{tx, owners} }
		}),
		"forgets effects":           simple(func(tx task.Tx) task.Tx { return noEffects{tx} }),
		"loses mail":                simple(func(tx task.Tx) task.Tx { return noMail{tx} }),
		"ignores capabilities":      simple(func(tx task.Tx) task.Tx { return anyCapability{tx} }),
		"ignores the case of ids":   simple(func(tx task.Tx) task.Tx { return foldedIDs{tx} }),
		"has a clock that stands":   simple(func(tx task.Tx) task.Tx { return stuckClock{tx, time.Date(2026, 10, 1, 10, 0, 0, 0, time.UTC)} }),
		"never wakes":               simple(func(tx task.Tx) task.Tx { return noWake{tx} }),
		"gives a cursor twice":      simple(func(tx task.Tx) task.Tx { return repeatedCursor{tx} }),
		"loses inputs":              simple(func(tx task.Tx) task.Tx { return lostInput{tx} }),
		"does not count live tasks": simple(func(tx task.Tx) task.Tx { return uncounted{tx} }),
		"keeps what failed": func(tb testing.TB) storetest.Fixture {
			f := reference(tb)
			f.Store = &fault{Store: f.Store, spoil: func(tx task.Tx) task.Tx { return tx }, after: func(error) error { return nil }}
			return f
		},
		"is not durable": func(tb testing.TB) storetest.Fixture {
			f := reference(tb)
			f.Reopen = func() task.Store { return reference(tb).Store }
			return f
		},
		"signals before the fact": func(tb testing.TB) storetest.Fixture {
			f := reference(tb)
			e := &eager{fault: fault{Store: f.Store}}
			e.spoil = func(tx task.Tx) task.Tx {
				e.mu.Lock()
				defer e.mu.Unlock()
				return earlySignals{tx, e.fn}
			}
			f.Store = e
			return f
		},
	}
	for name, open := range faults {
		t.Run(name, func(t *testing.T) {
			found := testkit.Failures(func(t testkit.T) { storetest.Run(t, open) })
			if len(found) == 0 {
				t.Error("the suite does not notice")
			}
			t.Logf("%d findings", len(found))
		})
	}
	t.Run("nothing", func(t *testing.T) {
		if found := testkit.Failures(func(t testkit.T) { storetest.Run(t, reference) }); len(found) > 0 {
			t.Errorf("findings on the reference: %v", found)
		}
	})
}
