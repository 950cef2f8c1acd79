package task

import (
	"context"
	"time"
)

// sweepBatch bounds how many tasks one transaction of a sweep changes, so that calls get their turn.
const sweepBatch = 128

// Sweep lets time happen to every task and schedule whose time has come. It returns how many there were; when that is not zero there may be more.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	return update(ctx, e, func(w *work) (int, error) {
		tasks, err := w.Due(sweepBatch)
		if err != nil {
			return 0, err
		}
		for i := range tasks {
			if err := w.tick(&tasks[i]); err != nil {
				return 0, err
			}
		}
		schedules, err := w.DueSchedules(sweepBatch)
		if err != nil {
			return 0, err
		}
		for i := range schedules {
			if err := w.fire(&schedules[i]); err != nil {
				return 0, err
			}
		}
		return len(tasks) + len(schedules), nil
	})
}

// tick lets time happen to one task. The task is read again, because an event of another one in this sweep may have changed it.
func (w *work) tick(t *Task) error {
	fresh, err := w.Task(t.Tenant, t.ID, Bare)
	if err == ErrNoRow {
		return nil
	}
	if err != nil {
		return err
	}
	before := fresh.Revision
	if err := w.apply(&fresh, Ticked{}); err != nil {
		return err
	}
	if fresh.Revision != before {
		return nil
	}
	// Nothing was due: the wake time in the store was older than the task, or a setting has changed.
	return w.Save(&fresh, fresh.WakeTime(w.engine.policy()))
}

// NextWake returns when [Engine.Sweep] has something to do next, and the store's time of now. Zero: never.
func (e *Engine) NextWake(ctx context.Context) (wake, now time.Time, err error) {
	err = e.store.View(ctx, func(tx ReadTx) error {
		now = tx.Now()
		wake, err = tx.NextWake()
		return err
	})
	return wake, now, err
}

// Outbox is mail to post, and when the next is due.
type Outbox struct {
	Due  []Mail
	Next time.Time
	Now  time.Time
}

// DueMail returns mail whose time has come.
func (e *Engine) DueMail(ctx context.Context, limit int) (Outbox, error) {
	return view(ctx, e, func(tx ReadTx) (Outbox, error) {
		due, next, err := tx.DueMail(limit)
		return Outbox{Due: due, Next: next, Now: tx.Now()}, err
	})
}

// MailAccepted removes mail that its thread has taken and marks the task as delivered.
func (e *Engine) MailAccepted(ctx context.Context, m Mail) error {
	_, err := update(ctx, e, func(w *work) (struct{}, error) {
		if err := w.DeleteMail(m.MessageID, m.Tenant); err != nil {
			return struct{}{}, err
		}
		t, err := w.Task(m.Tenant, m.TaskID, Bare)
		if err == ErrNoRow {
			return struct{}{}, nil
		}
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, w.apply(&t, Delivered{})
	})
	return err
}

// MailRefused notes a failed attempt; the next one is due after wait.
func (e *Engine) MailRefused(ctx context.Context, m Mail, reason string, wait time.Duration) error {
	return e.store.Update(ctx, func(tx Tx) error {
		m.Attempts++
		m.LastError = reason
		m.NextTime = tx.Now().Add(wait)
		return tx.SaveMail(m)
	})
}
