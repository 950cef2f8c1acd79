package sqlite

import (
	"database/sql"
	"strconv"
	"time"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// Effect returns a record.
func (t *tx) Effect(bucket, id string) (task.Effect, error) {
	e := task.Effect{Bucket: bucket, ID: id}
	var at sql.NullInt64
	if err := t.row("SELECT hash, outcome, time FROM effects WHERE bucket = ? AND id = ?", []any{bucket, id}, &e.Hash, &e.Outcome, &at); err != nil {
		return task.Effect{}, orNoRow(err)
	}
	e.Time = fromMicros(at)
	return e, nil
}

// PutEffect records an effect.
func (t *tx) PutEffect(e task.Effect) error {
	_, err := t.exec("INSERT INTO effects (bucket, id, hash, outcome, time) VALUES (?, ?, ?, ?, ?)", e.Bucket, e.ID, e.Hash, e.Outcome, e.Time.UnixMicro())
	return err
}

// PruneEffects forgets old effects.
func (t *tx) PruneEffects(before time.Time, limit int) (int, error) {
	return t.count(t.exec("DELETE FROM effects WHERE rowid IN (SELECT rowid FROM effects WHERE time < ? ORDER BY time LIMIT ?)", before.UnixMicro(), limit))
}

// AddChange appends to the log.
func (t *tx) AddChange(c task.Change) (int64, error) {
	record, err := task.EncodeTask(&c.Task)
	if err != nil {
		return 0, err
	}
	result, err := t.exec("INSERT INTO changes (owner, purged, time, record) VALUES (?, ?, ?, ?)", c.Owner, c.Purged, c.Time.UnixMicro(), record)
	if err != nil {
		return 0, err
	}
	cursor, err := result.LastInsertId()
	return cursor, storeError(err)
}

// Changes reads the log. Owner keys hold the tenant.
func (t *tx) Changes(_, owner string, after int64, limit int) ([]task.Change, error) {
	var found []task.Change
	err := t.each("SELECT cursor, purged, time, record FROM changes WHERE owner = ? AND cursor > ? ORDER BY cursor LIMIT ?", []any{owner, after, limit},
		func(rows *sql.Rows) error {
			var (
				c      = task.Change{Owner: owner}
				at     sql.NullInt64
				record []byte
			)
			err := rows.Scan(&c.Cursor, &c.Purged, &at, &record)
			if err != nil {
				return err
			}
			if c.Task, err = task.DecodeTask(record); err != nil {
				return err
			}
			c.Time = fromMicros(at)
			found = append(found, c)
			return nil
		})
	return found, err
}

// ChangeBounds returns the ends of the log.
func (t *tx) ChangeBounds() (newest, pruned int64, err error) {
	var last sql.NullInt64
	if err := t.row("SELECT max(seq) FROM sqlite_sequence WHERE name = 'changes'", nil, &last); err != nil {
		return 0, 0, err
	}
	err = t.row("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'pruned'", nil, &pruned)
	return last.Int64, pruned, err
}

// PruneChanges removes old entries from the front of the log. Entries are in order of time, so only the first ones are looked at.
func (t *tx) PruneChanges(before time.Time, limit int) (int, error) {
	const front = "SELECT cursor FROM (SELECT cursor, time FROM changes ORDER BY cursor LIMIT ?) WHERE time < ?"
	var highest sql.NullInt64
	if err := t.row("SELECT max(cursor) FROM ("+front+")", []any{limit, before.UnixMicro()}, &highest); err != nil {
		return 0, err
	}
	if !highest.Valid {
		return 0, nil
	}
	if _, err := t.exec("UPDATE meta SET value = ? WHERE key = 'pruned'", strconv.FormatInt(highest.Int64, 10)); err != nil {
		return 0, err
	}
	return t.count(t.exec("DELETE FROM changes WHERE cursor <= ?", highest.Int64))
}

// count returns how many rows a statement touched.
func (t *tx) count(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), storeError(err)
}
