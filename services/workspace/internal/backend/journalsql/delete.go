package journalsql

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Delete implements [journal.Keeper]. One transaction makes the thread unknown; its rows go in pieces, with room for others' work between them.
func (s *Store) Delete(ctx context.Context, key identity.Thread) (bool, error) {
	id, err := writing(ctx, s, func(t *Tx) (int64, error) { return t.Remove(key) })
	if err != nil || id == 0 {
		return false, err
	}
	// A caller that leaves now must not leave rows behind until the store is opened again.
	ctx = context.WithoutCancel(ctx)
	if err := s.finishRemoval(ctx, id); err != nil {
		return false, err
	}
	s.db.Scrub(ctx)
	return true, nil
}

// Remove takes the thread out of sight and notes what is to be removed: the first part of a Delete. It returns the row of the thread, 0 when
// there was none.
func (t *Tx) Remove(key identity.Thread) (int64, error) {
	r, err := t.find(key)
	if err != nil || r == nil {
		return 0, err
	}
	user := journal.UserOf(key).Key()
	change, err := t.nextChange(user)
	if err != nil {
		return 0, err
	}
	t.changed(r.id)
	for _, step := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO graves (key, user_key, epoch, change) VALUES (?, ?, ?, ?)", []any{r.key, user, r.epoch, change}},
		{"DELETE FROM threads WHERE id = ?", []any{r.id}},
		{"UPDATE logs SET alive = 0 WHERE id = ?", []any{r.log}},
		{"INSERT INTO removals (thread, log) VALUES (?, ?)", []any{r.id, r.log}},
	} {
		if err := t.Do(step.query, step.args...); err != nil {
			return 0, err
		}
	}
	return r.id, nil
}

// finishRemovals removes what interrupted deletions left.
func (s *Store) finishRemovals(ctx context.Context) error {
	ids, err := reading(ctx, s, func(v *View) ([]int64, error) { return v.ids("SELECT thread FROM removals") })
	for _, id := range ids {
		if err == nil {
			err = s.finishRemoval(ctx, id)
		}
	}
	return err
}

// finishRemoval removes the rows of a deleted thread, piece by piece.
func (s *Store) finishRemoval(ctx context.Context, id int64) error {
	for {
		more, err := writing(ctx, s, func(t *Tx) (bool, error) { return t.removeSome(id) })
		if err != nil || !more {
			return err
		}
	}
}

// removeSome removes up to a piece of the rows of a deleted thread, and says whether there is more.
func (t *Tx) removeSome(id int64) (more bool, err error) {
	var log int64
	if found, err := t.Get("SELECT log FROM removals WHERE thread = ?", []any{id}, &log); err != nil || !found {
		return false, err
	}
	for _, query := range []string{
		"DELETE FROM mail WHERE thread = ?1 AND message IN (SELECT message FROM mail WHERE thread = ?1 LIMIT ?2)",
		"DELETE FROM batches WHERE thread = ?1 AND batch IN (SELECT batch FROM batches WHERE thread = ?1 LIMIT ?2)",
	} {
		if n, err := t.Exec(query, id, removeChunk); err != nil || n == removeChunk {
			return true, err
		}
	}
	next, more, err := t.removeLog(log)
	if err != nil || more {
		return more, err
	}
	if next != 0 {
		_, err := t.Exec("UPDATE removals SET log = ? WHERE thread = ?", next, id)
		return true, err
	}
	_, err = t.Exec("DELETE FROM removals WHERE thread = ?", id)
	return false, err
}

// lockLog keeps others from forking a log or removing from it, before one looks for forks.
func (t *Tx) lockLog(log int64) error {
	if t.Lock == "" {
		return nil
	}
	return t.Do("SELECT 1 FROM logs WHERE id = ?"+t.Lock, log)
}

// removeLog removes events of a log that no thread uses, but for those that forks share, and the log itself when there are no forks. next is then the log that it
// was forked from, which may have been kept for its sake.
func (t *Tx) removeLog(log int64) (next int64, more bool, err error) {
	if err := t.lockLog(log); err != nil {
		return 0, false, err
	}
	var alive, forks bool
	var keep, parent int64
	found, err := t.Get(`SELECT alive, parent, coalesce((SELECT max(base) FROM logs f WHERE f.parent = l.id AND f.parent > 0), 0),
 EXISTS (SELECT 1 FROM logs f WHERE f.parent = l.id AND f.parent > 0) FROM logs l WHERE l.id = ?`, []any{log}, &alive, &parent, &keep, &forks)
	if err != nil || !found || alive {
		return 0, false, err
	}
	ids, err := t.ids("SELECT id FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT ?", eventID(log, keep), eventID(log+1, 0), removeChunk)
	if err != nil {
		return 0, false, err
	}
	if n := len(ids); n > 0 {
		if _, err := t.forget(ids[n-1], ids[0]); err != nil {
			return 0, false, err
		}
		if _, err := t.Exec("DELETE FROM events WHERE id BETWEEN ? AND ?", ids[n-1], ids[0]); err != nil {
			return 0, false, err
		}
		return 0, true, nil
	}
	if forks {
		return 0, false, nil
	}
	_, err = t.Exec("DELETE FROM logs WHERE id = ?", log)
	return parent, false, err
}
