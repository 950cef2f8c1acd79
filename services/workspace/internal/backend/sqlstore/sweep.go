package sqlstore

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
)

const (
	// sweepEvery is after how many revisions of a space an update also sweeps.
	sweepEvery = 256
	// looseLife is how long replaced content stays for those who read it, and staged content for the update that takes it over.
	looseLife = time.Hour
	// keptChanges is how many changes of a space are kept for Watch at least.
	keptChanges = 50_000
	// sweepContents and sweepRevisions bound one sweep, and sweepSpaces how many spaces it looks at that nobody may be writing to.
	sweepContents, sweepRevisions, sweepSpaces = 500, 500, 100
)

// sweep removes what nobody needs any more, within bounds.
func (t *tx) sweep(ctx context.Context) error {
	before := t.now.Add(-looseLife).UnixMicro()
	var ids []int64
	err := t.q.Query(ctx, `SELECT id FROM contents WHERE loose_since > 0 AND loose_since < ?1 ORDER BY loose_since LIMIT ?2`, func(row Row) error {
		var id int64
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	}, before, sweepContents)
	if err != nil {
		return err
	}
	if t.swept, err = t.store.dropLoose(ctx, t.q, ids); err != nil {
		return err
	}
	if err := t.sweepHistory(ctx); err != nil {
		return err
	}
	if err := t.q.Do(ctx, `DELETE FROM changes WHERE space_id = ?1 AND seq <= ?2`, t.id, t.seq-keptChanges); err != nil {
		return err
	}
	return t.q.Do(ctx, `DELETE FROM effects WHERE space_id = ?1 AND time < ?2`, t.id, t.now.Add(-effect.RecordLife).UnixMicro())
}

// sweepHistory removes revisions that are too old: those of the space, and of one of the next spaces in turn, where perhaps nobody writes any more.
func (t *tx) sweepHistory(ctx context.Context) error {
	before, some := t.store.history.Before(t.now)
	if t.store.history.Count <= 0 {
		before, some = t.now, true
	}
	if !some {
		return nil
	}
	if err := t.dropBefore(ctx, t.id, before); err != nil {
		return err
	}
	from, idle := t.store.sweptTo.Load(), int64(0)
	last, seen := from, 0
	err := t.q.Query(ctx, `SELECT s.id, (SELECT count(*) FROM (SELECT 1 FROM revisions r WHERE r.space_id = s.id AND r.replaced < ?2 LIMIT 1) x)
		FROM spaces s WHERE s.id > ?1 ORDER BY s.id LIMIT ?3`, func(row Row) error {
		var id, old int64
		if err := row.Scan(&id, &old); err != nil {
			return err
		}
		if seen++; idle == 0 {
			last = id
			if old > 0 && id != t.id {
				idle = id
			}
		}
		return nil
	}, from, before.UnixMicro(), sweepSpaces)
	if err != nil {
		return err
	}
	if seen < sweepSpaces && idle == 0 {
		last = 0 // begin anew
	}
	t.store.sweptTo.Store(last)
	if idle == 0 {
		return nil
	}
	// A space that is being written sweeps itself; waiting for it here could be waiting for each other.
	locked := false
	err = t.q.Query(ctx, `SELECT id FROM spaces WHERE id = ?1`+t.store.db.Dialect().TryForUpdate, func(row Row) error {
		locked = true
		return row.Scan(&idle)
	}, idle)
	if err != nil || !locked {
		return err
	}
	return t.dropBefore(ctx, idle, before)
}

// dropBefore drops revisions of a space that were replaced before a time, the oldest first.
func (t *tx) dropBefore(ctx context.Context, space int64, before time.Time) error {
	return t.drop(ctx, func(row string) string {
		return row + `.space_id = ?1 AND ` + row + `.seq IN (SELECT o.seq FROM revisions o WHERE o.space_id = ?1 AND o.replaced < ?2 ORDER BY o.replaced, o.seq LIMIT ?3)`
	}, space, before.UnixMicro(), int64(sweepRevisions))
}
