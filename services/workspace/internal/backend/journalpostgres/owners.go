package journalpostgres

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// heartbeat is one statement, however many threads the owner holds: they refer to its row. A life that has run out is judged here, and stays so.
const heartbeat = `WITH n AS (SELECT clock($4) AS now)
INSERT INTO owners AS o (name, address, expire, state) SELECT $1, $2, now + $5, $3 FROM n
ON CONFLICT (name) DO UPDATE SET
 state   = CASE WHEN o.state > 0 THEN o.state WHEN o.expire > excluded.expire - $5 THEN excluded.state ELSE 1 END,
 expire  = CASE WHEN o.state = 0 AND o.expire > excluded.expire - $5 THEN excluded.expire ELSE o.expire END,
 address = CASE WHEN o.state = 0 AND o.expire > excluded.expire - $5 THEN excluded.address ELSE o.address END
RETURNING state, xmax = 0`

// Heartbeat implements [journal.Ownership].
func (s *Store) Heartbeat(ctx context.Context, owner journal.Owner, leaving bool) (time.Duration, error) {
	if err := owner.Validate(); err != nil {
		return 0, err
	}
	if err := s.db.open(); err != nil {
		return 0, err
	}
	state, fresh := int64(0), false
	if leaving {
		state = 1
	}
	err := s.db.pool.QueryRow(ctx, heartbeat, owner.ID, owner.Address, state, s.db.now(), int64(journal.OwnerLife)).Scan(&state, &fresh)
	if err != nil {
		return 0, failed(ctx, err)
	}
	if state > 0 {
		s.db.changed([]journalsql.Note{journalsql.ClaimNote})
	}
	if state > 0 && !leaving {
		return 0, journal.OwnerExpired(owner.ID)
	}
	if fresh {
		return journal.OwnerLife, s.db.forgetOwners(ctx)
	}
	return journal.OwnerLife, nil
}

// forgetOwners forgets those that died long ago and hold nothing.
func (d *database) forgetOwners(ctx context.Context) error {
	_, err := d.pool.Exec(ctx, `DELETE FROM owners WHERE state = 2 AND expire < clock($1) - $2`, d.now(), int64(ownerMemory))
	return failed(ctx, err)
}
