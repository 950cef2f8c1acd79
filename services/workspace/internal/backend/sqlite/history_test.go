package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// counting counts the statements of updates.
type counting struct {
	*sqlite.DB
	n int
}

func (c *counting) Update(ctx context.Context, space files.Space, f func(context.Context, sqlstore.Querier) error) error {
	return c.DB.Update(ctx, space, func(ctx context.Context, q sqlstore.Querier) error { return f(ctx, countingQuerier{q, c}) })
}

type countingQuerier struct {
	sqlstore.Querier
	db *counting
}

func (q countingQuerier) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	q.db.n++
	return q.Querier.Exec(ctx, statement, args...)
}

func (q countingQuerier) Do(ctx context.Context, statement string, args ...any) error {
	q.db.n++
	return q.Querier.Do(ctx, statement, args...)
}

func (q countingQuerier) Query(ctx context.Context, statement string, scan func(sqlstore.Row) error, args ...any) error {
	q.db.n++
	return q.Querier.Query(ctx, statement, scan, args...)
}

// writer changes files of a store that counts statements.
type writer struct {
	*testing.T
	store *sqlstore.Store
	db    *counting
}

func newWriter(t *testing.T, policy files.History, now func() time.Time) writer {
	db, err := sqlite.OpenDB(t.Context(), filepath.Join(t.TempDir(), "files.db"), sqlite.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	c := &counting{DB: db}
	store := sqlstore.New(c, now, policy)
	t.Cleanup(func() { store.Close() })
	return writer{T: t, store: store, db: c}
}

// cost returns how many statements a change took.
func (w writer) cost(space files.Space, change func(v *files.View) error) int {
	w.Helper()
	before := w.db.n
	if err := change(files.NewView(w.store, space, nil, files.Limits{}, time.Now)); err != nil {
		w.Fatal(err)
	}
	return w.db.n - before
}

func (w writer) write(space files.Space, name, content string) int {
	w.Helper()
	return w.cost(space, func(v *files.View) error {
		staged, err := w.store.Stage(w.Context(), strings.NewReader(content), 0)
		if err == nil {
			_, err = v.Write(w.Context(), files.Call{}, files.Write{Path: fsops.PathOf(name)}, staged)
		}
		return err
	})
}

func (w writer) append(space files.Space, name, content string) int {
	w.Helper()
	return w.cost(space, func(v *files.View) error {
		_, err := v.Append(w.Context(), files.Call{}, fsops.PathOf(name), []byte(content), false)
		return err
	})
}

// History costs a write no statement, an append one, and now and then two more for pruning, however long the history was. A round trip to a database is what they cost.
func TestStatements(t *testing.T) {
	off, on := newWriter(t, files.History{}, time.Now), newWriter(t, files.History{Count: 20}, time.Now)
	measure := func(w writer, change func(writer) int) (usual, most int, mean float64) {
		const times = 400
		costs := map[int]int{}
		for range times {
			n := change(w)
			costs[n]++
			most = max(most, n)
			mean += float64(n) / times
		}
		for n, count := range costs {
			if count > costs[usual] {
				usual = n
			}
		}
		return usual, most, mean
	}
	for name, c := range map[string]struct {
		change func(writer) int
		more   int
	}{
		"write":  {func(w writer) int { return w.write("s", "f", "content") }, 0},
		"append": {func(w writer) int { return w.append("s", "log", "line\n") }, 1},
	} {
		c.change(off)
		c.change(on)
		before, _, _ := measure(off, c.change)
		after, most, mean := measure(on, c.change)
		again, _, _ := measure(on, c.change)
		t.Logf("%s: %d statements, with history %d (mean %.2f, at most %d)", name, before, after, mean, most)
		if after > before+c.more || mean > float64(before+c.more)+0.5 || again != after {
			t.Errorf("%s: %d statements, with history %d, then %d (mean %.2f)", name, before, after, again, mean)
		}
	}
}

// What is too old goes from spaces that nobody writes any more too.
func TestHistoryOfIdleSpaces(t *testing.T) {
	now := time.Now()
	w := newWriter(t, files.History{Count: 20, Age: time.Hour}, func() time.Time { return now })
	var idle []files.Space
	for i := range 3 {
		idle = append(idle, files.Space(fmt.Sprintf("default/user/coder/idle%d", i)))
		w.write(idle[i], "f", "1")
		w.write(idle[i], "f", "2")
	}
	w.write("busy", "gone", "1")
	w.cost("busy", func(v *files.View) error {
		_, err := v.Delete(t.Context(), files.Call{}, files.Delete{Path: fsops.PathOf("gone")})
		return err
	})
	count := func() (n int) {
		for _, s := range idle {
			kept, _, err := w.store.Space(s).Revisions(t.Context(), fsops.PathOf("f"), "", 10)
			if err != nil {
				t.Fatal(err)
			}
			n += len(kept)
		}
		return n
	}
	now = now.Add(59 * time.Minute)
	for i := range 300 {
		w.write("busy", "f", fmt.Sprint(i))
	}
	if n := count(); n != 3 {
		t.Errorf("%d revisions of idle spaces are kept within their age, want 3", n)
	}
	now = now.Add(2 * time.Minute)
	for i := range 1500 {
		w.write("busy", "f", fmt.Sprint(i))
	}
	if n := count(); n != 0 {
		t.Errorf("%d revisions of idle spaces are kept beyond their age", n)
	}
	if kept, _, err := w.store.Space("busy").Revisions(t.Context(), fsops.PathOf("gone"), "", 10); err != nil || len(kept) != 0 {
		t.Errorf("%d revisions of a deleted file are kept beyond their age, %v", len(kept), err)
	}
}
