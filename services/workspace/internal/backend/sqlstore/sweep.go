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
	// sweepContents bounds one sweep.
	sweepContents = 500
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
	for _, id := range ids {
		if err := dropContent(ctx, t.q, id); err != nil {
			return err
		}
	}
	if _, err := t.q.Exec(ctx, `DELETE FROM changes WHERE space_id = ?1 AND seq <= ?2`, t.id, t.seq-keptChanges); err != nil {
		return err
	}
	_, err = t.q.Exec(ctx, `DELETE FROM effects WHERE space_id = ?1 AND time < ?2`, t.id, t.now.Add(-effect.RecordLife).UnixMicro())
	return err
}
