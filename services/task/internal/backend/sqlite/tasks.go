package sqlite

import (
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// tx is a transaction, for writing on the writer's connection and for reading on the others.
type tx struct {
	*conn
	store   *Store
	now     time.Time
	signals []task.Signal
}

var _ task.Tx = (*tx)(nil)

// Now is the clock, fixed within the transaction.
func (t *tx) Now() time.Time { return t.now }

// StoreID names the store.
func (t *tx) StoreID() string { return t.store.id }

// Signal keeps a signal for after the commit.
func (t *tx) Signal(s task.Signal) { t.signals = append(t.signals, s) }

// Task returns one task.
func (t *tx) Task(tenant, id string, parts task.Parts) (task.Task, error) {
	found, err := t.tasks("SELECT seq, record FROM tasks WHERE tenant = ? AND id = ?", []any{tenant, id}, parts)
	if err != nil || len(found) == 0 {
		return task.Task{}, orNoRow(err)
	}
	return found[0], nil
}

func orNoRow(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return task.ErrNoRow
	}
	return err
}

// tasks reads the tasks of a query that gives seq and record, and then the parts.
func (t *tx) tasks(query string, args []any, parts task.Parts) ([]task.Task, error) {
	var found []task.Task
	err := t.each(query, args, func(rows *sql.Rows) error {
		var (
			seq    int64
			record []byte
		)
		if err := rows.Scan(&seq, &record); err != nil {
			return err
		}
		one, err := task.DecodeTask(record)
		if err != nil {
			return err
		}
		one.Seq = seq
		found = append(found, one)
		return nil
	})
	if err != nil || parts == task.Bare {
		return found, err
	}
	for i := range found {
		if err := t.parts(&found[i], parts); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// parts reads input and result.
func (t *tx) parts(one *task.Task, parts task.Parts) error {
	column := map[task.Parts]string{
		task.WithInput: "input, NULL", task.WithResult: "NULL, result", task.WithInput | task.WithResult: "input, result",
	}[parts]
	var input, result []byte
	err := t.row("SELECT "+column+" FROM parts WHERE seq = ?", []any{one.Seq}, &input, &result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if one.Input, err = task.DecodeInput(input); err != nil {
		return err
	}
	one.Result, err = task.DecodeResult(result)
	return err
}

// Insert adds a task.
func (t *tx) Insert(one *task.Task, wake time.Time) error {
	record, err := task.EncodeTask(one)
	if err != nil {
		return err
	}
	thread := ""
	if one.ParentThread != (identity.Thread{}) {
		thread = one.ParentThread.Key()
	}
	result, err := t.exec(`INSERT INTO tasks (tenant, id, owner, root_owner, parent_id, root_id, parent_thread, kind, label, schedule_id, queue, capability, state, live, ready, rank, wake, ended, record)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		one.Tenant, one.ID, one.Owner, one.RootOwner, one.ParentID, one.RootID, thread, one.Kind, one.Label, one.ScheduleID, one.Queue, one.Capability,
		int64(one.State), one.Live(), one.Ready(), one.Rank(), micros(wake), micros(one.EndTime), record)
	if err != nil {
		return err
	}
	if one.Seq, err = result.LastInsertId(); err != nil {
		return storeError(err)
	}
	input, err := task.EncodeInput(one.Input)
	if err != nil || input == nil {
		return err
	}
	_, err = t.exec("INSERT INTO parts (seq, input) VALUES (?, ?)", one.Seq, input)
	return err
}

// Save replaces a record.
func (t *tx) Save(one *task.Task, wake time.Time) error {
	record, err := task.EncodeTask(one)
	if err != nil {
		return err
	}
	if _, err = t.exec("UPDATE tasks SET state = ?, live = ?, ready = ?, wake = ?, ended = ?, record = ? WHERE seq = ?",
		int64(one.State), one.Live(), one.Ready(), micros(wake), micros(one.EndTime), record, one.Seq); err != nil {
		return err
	}
	result, err := task.EncodeResult(one.Result)
	if err != nil || result == nil {
		return err
	}
	_, err = t.exec("INSERT INTO parts (seq, result) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET result = excluded.result", one.Seq, result)
	return err
}

// Delete removes a task.
func (t *tx) Delete(one *task.Task) error {
	if _, err := t.exec("DELETE FROM parts WHERE seq = ?", one.Seq); err != nil {
		return err
	}
	_, err := t.exec("DELETE FROM tasks WHERE seq = ?", one.Seq)
	return err
}

// Ready returns tasks that can be leased.
func (t *tx) Ready(tenant, queue, capability string, limit int) ([]task.Task, error) {
	return t.tasks(`SELECT seq, record FROM tasks INDEXED BY tasks_ready
		WHERE tenant = ? AND queue = ? AND capability = ? AND ready = 1 ORDER BY rank, seq LIMIT ?`, []any{tenant, queue, capability, limit}, task.WithInput)
}

// Due returns tasks that time changes now.
func (t *tx) Due(limit int) ([]task.Task, error) {
	return t.tasks("SELECT seq, record FROM tasks INDEXED BY tasks_wake WHERE wake <= ? ORDER BY wake LIMIT ?", []any{t.now.UnixMicro(), limit}, task.Bare)
}

// Children returns live tasks below one.
func (t *tx) Children(tenant, parentID string) ([]task.Task, error) {
	return t.tasks("SELECT seq, record FROM tasks WHERE tenant = ? AND parent_id = ? AND parent_id <> '' AND live = 1", []any{tenant, parentID}, task.Bare)
}

// NextWake returns when time changes something next.
func (t *tx) NextWake() (time.Time, error) {
	var wake sql.NullInt64
	err := t.row(`SELECT min(at) FROM (
		SELECT * FROM (SELECT wake AS at FROM tasks INDEXED BY tasks_wake WHERE wake IS NOT NULL ORDER BY wake LIMIT 1)
		UNION ALL SELECT * FROM (SELECT next AS at FROM schedules WHERE next IS NOT NULL ORDER BY next LIMIT 1))`, nil, &wake)
	return fromMicros(wake), err
}

// CountLive reads the counter.
func (t *tx) CountLive(tenant, owner string, _ int) (int, error) {
	key := "t" + tenant
	if owner != "" {
		key = "o" + owner
	}
	var n int
	err := t.row("SELECT tasks FROM live WHERE key = ?", []any{key}, &n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// List returns tasks, newest first.
func (t *tx) List(q task.Query) ([]task.Task, error) {
	where, args := conditions(q)
	// Two index scans, since a condition on either of two columns would read everything: own tasks, and those of others below own ones.
	own := "SELECT seq, record FROM tasks WHERE owner = ?" + where + " ORDER BY seq DESC LIMIT ?"
	below := "SELECT seq, record FROM tasks WHERE root_owner = ? AND root_owner <> owner" + where + " ORDER BY seq DESC LIMIT ?"
	query := "SELECT seq, record FROM (SELECT * FROM (" + own + ") UNION ALL SELECT * FROM (" + below + ")) ORDER BY seq DESC LIMIT ?"
	half := append(append([]any{q.Owner}, args...), q.Limit)
	return t.tasks(query, append(append(half, half...), q.Limit), q.Parts)
}

// conditions composes the filters of a list. The text depends on which filters are set, never on their values.
func conditions(q task.Query) (string, []any) {
	var (
		text strings.Builder
		args []any
	)
	add := func(condition string, values ...any) {
		text.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	for _, f := range []struct{ column, value string }{
		{"tenant", q.Tenant}, {"label", q.Label}, {"parent_id", q.ParentID}, {"root_id", q.RootID}, {"parent_thread", q.ParentThread}, {"kind", q.Kind}, {"schedule_id", q.ScheduleID},
	} {
		if f.value != "" {
			add(f.column+" = ?", f.value)
		}
	}
	if q.Before > 0 {
		add("seq < ?", q.Before)
	}
	if len(q.States) > 0 {
		live := true
		values := make([]any, 0, len(q.States))
		for _, state := range q.States {
			live = live && !state.Terminal()
			values = append(values, int64(state))
		}
		add("state IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
		if live {
			add("live = 1")
		}
	}
	return text.String(), args
}

// Purgeable returns ended tasks, those that ended last first.
func (t *tx) Purgeable(q task.PurgeQuery) ([]task.Task, error) {
	before := int64(1<<63 - 1)
	if !q.EndedBefore.IsZero() {
		before = q.EndedBefore.UnixMicro()
	}
	text, args := "ended IS NOT NULL AND ended < ?", []any{before}
	if q.Owner != "" {
		text, args = "owner = ? AND "+text, []any{q.Owner, before}
	}
	if q.Tenant != "" {
		text += " AND tenant = ?"
		args = append(args, q.Tenant)
	}
	return t.tasks("SELECT seq, record FROM tasks WHERE "+text+" ORDER BY ended DESC LIMIT ? OFFSET ?", append(args, q.Limit, q.Skip), task.Bare)
}

// Crowded returns owners with many ended tasks. It reads the index of ended tasks whole; retention runs it rarely.
func (t *tx) Crowded(keep, limit int) ([]string, error) {
	var owners []string
	err := t.each("SELECT owner FROM tasks INDEXED BY tasks_ended WHERE ended IS NOT NULL GROUP BY owner HAVING count(*) > ? LIMIT ?", []any{keep, limit}, func(rows *sql.Rows) error {
		var owner string
		if err := rows.Scan(&owner); err != nil {
			return err
		}
		owners = append(owners, owner)
		return nil
	})
	return owners, err
}
