package sqlite

import (
	"database/sql"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// PutMail adds mail. Mail of the same id is there once.
func (t *tx) PutMail(m task.Mail) error {
	_, err := t.exec(`INSERT INTO mail (tenant, message_id, task_id, thread, kind, payload, wake, attempts, next, last_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (tenant, message_id) DO NOTHING`,
		m.Tenant, m.MessageID, m.TaskID, m.Thread, m.Kind, m.Payload, m.Wake, m.Attempts, m.NextTime.UnixMicro(), m.LastError)
	return err
}

// SaveMail notes an attempt.
func (t *tx) SaveMail(m task.Mail) error {
	_, err := t.exec("UPDATE mail SET attempts = ?, next = ?, last_error = ? WHERE tenant = ? AND message_id = ?", m.Attempts, m.NextTime.UnixMicro(), m.LastError, m.Tenant, m.MessageID)
	return err
}

// DeleteMail removes mail.
func (t *tx) DeleteMail(messageID, tenant string) error {
	_, err := t.exec("DELETE FROM mail WHERE tenant = ? AND message_id = ?", tenant, messageID)
	return err
}

// HasMail says whether mail of a task is left.
func (t *tx) HasMail(tenant, taskID string) (bool, error) {
	var one int
	err := t.row("SELECT 1 FROM mail WHERE tenant = ? AND task_id = ? LIMIT 1", []any{tenant, taskID}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// DueMail returns mail to post and when the next is due.
func (t *tx) DueMail(limit int) ([]task.Mail, time.Time, error) {
	var found []task.Mail
	err := t.each(`SELECT tenant, message_id, task_id, thread, kind, payload, wake, attempts, next, last_error FROM mail WHERE next <= ? ORDER BY next LIMIT ?`,
		[]any{t.now.UnixMicro(), limit}, func(rows *sql.Rows) error {
			var (
				m    task.Mail
				next sql.NullInt64
			)
			if err := rows.Scan(&m.Tenant, &m.MessageID, &m.TaskID, &m.Thread, &m.Kind, &m.Payload, &m.Wake, &m.Attempts, &next, &m.LastError); err != nil {
				return err
			}
			m.NextTime = fromMicros(next)
			found = append(found, m)
			return nil
		})
	if err != nil {
		return nil, time.Time{}, err
	}
	var next sql.NullInt64
	err = t.row("SELECT min(next) FROM mail WHERE next > ?", []any{t.now.UnixMicro()}, &next)
	return found, fromMicros(next), err
}
