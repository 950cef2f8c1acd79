package journalsql

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// ClaimExpired implements [journal.Ownership].
//
// Of all callers in this process that know the same schema one looks, and sleeps until the next thread can become due; the others wait for its place. So
// there is one timer, and one query a change, however many callers there are.
func (s *Store) ClaimExpired(ctx context.Context, request journal.ClaimRequest) ([]journal.Claim, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if request.MaxWait == 0 {
		// Not behind those who wait: their place may be taken for long.
		return s.claim(ctx, request)
	}
	queue := s.notify.joinClaims(request.MaxSchema)
	defer s.notify.leaveClaims(request.MaxSchema)
	end := time.NewTimer(request.MaxWait)
	defer end.Stop()
	select {
	case <-queue.turn:
	case <-end.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.quit:
		return nil, ErrClosed
	}
	defer func() { queue.turn <- struct{}{} }()
	for {
		claims, err := s.claim(ctx, request)
		if err != nil || len(claims) > 0 {
			return claims, err
		}
		next, err := s.nextDue(ctx)
		if err != nil {
			return nil, err
		}
		wait := time.NewTimer(next)
		select {
		case <-queue.wake:
			wait.Stop()
		case <-wait.C:
		case <-end.C:
			wait.Stop()
			return nil, nil
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		case <-s.quit:
			wait.Stop()
			return nil, ErrClosed
		}
	}
}

// nextDue returns how long it is until a thread without an owner becomes due, or an owner of a thread with work can expire.
func (s *Store) nextDue(ctx context.Context) (time.Duration, error) {
	return reading(ctx, s, func(v *View) (time.Duration, error) {
		now := v.Now.UnixNano()
		var due, expire int64
		_, err := v.Get(`SELECT coalesce((SELECT min(due) FROM threads WHERE owner = 0 AND due > ?1), ?2),
 coalesce((SELECT min(expire) FROM owners o WHERE state = 0 AND expire > ?1
  AND EXISTS (SELECT 1 FROM threads t WHERE t.owner = o.id AND t.due < ?2)), ?2)`, []any{now, int64(never)}, &due, &expire)
		// Longer than any caller waits is soon enough.
		return time.Duration(min(due-now, expire-now, int64(journal.MaxClaimWait))), err
	})
}

// claim makes one attempt. It writes only when there is something to take or somebody to judge.
func (s *Store) claim(ctx context.Context, request journal.ClaimRequest) ([]journal.Claim, error) {
	work := false
	err := s.db.Read(ctx, func(v *View) error {
		_, err := v.Get(`SELECT EXISTS (SELECT 1 FROM threads WHERE owner = 0 AND due <= ?1)
 OR EXISTS (SELECT 1 FROM owners WHERE state = 1) OR EXISTS (SELECT 1 FROM owners WHERE state = 0 AND expire <= ?1)
 OR NOT EXISTS (SELECT 1 FROM owners WHERE name = ?2 AND state = 0)`, []any{v.Now.UnixNano(), request.Owner.ID}, &work)
		return err
	})
	if err != nil || !work {
		return nil, err
	}
	return writing(ctx, s, func(t *Tx) ([]journal.Claim, error) {
		owner, err := t.mustLive(request.Owner)
		if err != nil {
			return nil, err
		}
		if err := t.reap(); err != nil {
			return nil, err
		}
		return t.takeDue(&s.turns, owner, request)
	})
}

// reap judges the owners whose time has run out, and takes threads from those that were judged, those with work first.
func (t *Tx) reap() error {
	if _, err := t.Exec("UPDATE owners SET state = 1 WHERE state = 0 AND expire <= ?", t.Now.UnixNano()); err != nil {
		return err
	}
	dead, err := t.ids("SELECT id FROM owners WHERE state = 1" + t.SkipLocked)
	if err != nil {
		return err
	}
	room := int64(reapChunk)
	for _, id := range dead {
		if room <= 0 {
			break
		}
		n, err := t.Exec(`UPDATE threads SET owner = 0, prev_owner = (SELECT name FROM owners WHERE id = ?1),
 prev_address = (SELECT address FROM owners WHERE id = ?1)
 WHERE id IN (SELECT id FROM threads WHERE owner = ?1 ORDER BY due LIMIT ?2`+t.Lock+`)`, id, room)
		if err != nil {
			return err
		}
		if room -= n; room > 0 {
			if err := t.Do("UPDATE owners SET state = 2 WHERE id = ?", id); err != nil {
				return err
			}
		}
	}
	if room <= 0 {
		// There may be more: have the next attempt made at once.
		t.due()
	}
	return nil
}

// takeDue acquires due threads, tenant by tenant in the order of names, beginning with the one whose turn it is, once around.
func (t *Tx) takeDue(turns *journal.Turns, owner int64, request journal.ClaimRequest) ([]journal.Claim, error) {
	var claims []journal.Claim
	for wrapped, at := false, turns.Begin(); len(claims) < request.Max; {
		tenant, found, err := t.tenantAt(at)
		if err != nil {
			return nil, err
		}
		if !found {
			if wrapped {
				break
			}
			wrapped, at = true, ""
			continue
		}
		share := turns.Share(tenant, request.Max-len(claims))
		ids, err := t.ids(`SELECT id FROM threads`+t.ByTurn+`
 WHERE owner = 0 AND tenant = ? AND due <= ? AND due < 9223372036854775807 AND need_schema <= ? ORDER BY due LIMIT ?`+t.SkipLocked,
			tenant, t.Now.UnixNano(), request.MaxSchema, share)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			r, err := t.byID(id)
			if err != nil {
				return nil, err
			}
			claim, err := t.acquire(r, owner)
			if err != nil {
				return nil, err
			}
			claims = append(claims, claim)
		}
		turns.Took(tenant, len(ids), share)
		if len(ids) > 0 {
			// As long as tenants have work, go around again.
			wrapped = false
		}
		at = turns.Begin()
	}
	return claims, nil
}

// tenantAt returns the first tenant at or after a name that has threads which are, or will be, due.
func (t *Tx) tenantAt(name string) (tenant string, found bool, err error) {
	found, err = t.Get("SELECT tenant FROM threads"+t.ByTurn+" WHERE owner = 0 AND due < 9223372036854775807 AND tenant >= ? ORDER BY tenant LIMIT 1",
		[]any{name}, &tenant)
	return tenant, found, err
}
