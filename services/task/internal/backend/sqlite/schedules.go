package sqlite

import (
	"database/sql"
	"encoding/json"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// Schedule returns one schedule.
func (t *tx) Schedule(tenant, id string) (task.Schedule, error) {
	found, err := t.schedules("SELECT seq, record FROM schedules WHERE tenant = ? AND id = ?", tenant, id)
	if err != nil || len(found) == 0 {
		return task.Schedule{}, orNoRow(err)
	}
	return found[0], nil
}

// Schedules returns the schedules of an owner, newest first. Owner keys hold the tenant.
func (t *tx) Schedules(_, owner string, before int64, limit int) ([]task.Schedule, error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	return t.schedules("SELECT seq, record FROM schedules WHERE owner = ? AND seq < ? ORDER BY seq DESC LIMIT ?", owner, before, limit)
}

// DueSchedules returns schedules to fire.
func (t *tx) DueSchedules(limit int) ([]task.Schedule, error) {
	return t.schedules("SELECT seq, record FROM schedules WHERE next IS NOT NULL AND next <= ? ORDER BY next LIMIT ?", t.now.UnixMicro(), limit)
}

func (t *tx) schedules(query string, args ...any) ([]task.Schedule, error) {
	var found []task.Schedule
	err := t.each(query, args, func(rows *sql.Rows) error {
		var (
			s      task.Schedule
			seq    int64
			record []byte
		)
		if err := rows.Scan(&seq, &record); err != nil {
			return err
		}
		if err := json.Unmarshal(record, &s); err != nil {
			return err
		}
		s.Seq = seq
		found = append(found, s)
		return nil
	})
	return found, err
}

// InsertSchedule adds a schedule.
func (t *tx) InsertSchedule(s *task.Schedule) error {
	record, err := json.Marshal(s)
	if err != nil {
		return err
	}
	result, err := t.exec("INSERT INTO schedules (tenant, id, owner, next, record) VALUES (?, ?, ?, ?, ?)", s.Tenant, s.ID, s.Owner, micros(s.Next), record)
	if err != nil {
		return err
	}
	s.Seq, err = result.LastInsertId()
	return storeError(err)
}

// SaveSchedule replaces a schedule.
func (t *tx) SaveSchedule(s *task.Schedule) error {
	record, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = t.exec("UPDATE schedules SET next = ?, record = ? WHERE tenant = ? AND id = ?", micros(s.Next), record, s.Tenant, s.ID)
	return err
}

// DeleteSchedule removes a schedule.
func (t *tx) DeleteSchedule(tenant, id string) error {
	_, err := t.exec("DELETE FROM schedules WHERE tenant = ? AND id = ?", tenant, id)
	return err
}
