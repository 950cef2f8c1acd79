package journalsql

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Heartbeat implements [journal.Ownership].
func (s *Store) Heartbeat(ctx context.Context, owner journal.Owner, leaving bool) (time.Duration, error) {
	if err := owner.Validate(); err != nil {
		return 0, err
	}
	expired, err := writing(ctx, s, func(t *Tx) (bool, error) {
		now, state := t.Now.UnixNano(), ownerAlive
		if leaving {
			state = ownerJudged
			t.due()
		}
		id, alive, err := t.owner(owner.ID)
		switch {
		case err != nil:
			return false, err
		case id == 0:
			return false, t.addOwner(owner, state)
		case !alive && leaving:
			return false, nil
		case !alive:
			// The verdict must stay, so this is no error of the transaction.
			t.due()
			_, err = t.Exec("UPDATE owners SET state = CASE WHEN state > ?1 THEN state ELSE ?1 END WHERE id = ?2", ownerJudged, id)
			return true, err
		}
		_, err = t.Exec("UPDATE owners SET expire = ?, address = ?, state = ? WHERE id = ?", now+int64(journal.OwnerLife), owner.Address, state, id)
		return false, err
	})
	if err == nil && expired {
		err = journal.OwnerExpired(owner.ID)
	}
	if err != nil {
		return 0, err
	}
	return journal.OwnerLife, nil
}

// owner returns the row of an owner (0: none) and whether it lives.
func (t *Tx) owner(name string) (id int64, alive bool, err error) {
	var expire, state int64
	_, err = t.Get("SELECT id, expire, state FROM owners WHERE name = ?", []any{name}, &id, &expire, &state)
	return id, id != 0 && state == ownerAlive && expire > t.Now.UnixNano(), err
}

// addOwner remembers a new owner, and forgets those that died long ago and hold nothing.
func (t *Tx) addOwner(owner journal.Owner, state int) error {
	if _, err := t.Exec("DELETE FROM owners WHERE state = ? AND expire < ?", ownerReaped, t.Now.Add(-ownerMemory).UnixNano()); err != nil {
		return err
	}
	_, err := t.Exec("INSERT INTO owners (name, address, expire, state) VALUES (?, ?, ?, ?)",
		owner.ID, owner.Address, t.Now.Add(journal.OwnerLife).UnixNano(), state)
	return err
}

// mustLive returns the row of a live owner, or OWNER_EXPIRED. Its threads are not taken from it before the end of the transaction.
func (t *Tx) mustLive(owner journal.Owner) (int64, error) {
	if t.Keep != "" {
		if err := t.Do("SELECT 1 FROM owners WHERE name = ?"+t.Keep, owner.ID); err != nil {
			return 0, err
		}
	}
	id, alive, err := t.owner(owner.ID)
	if err == nil && !alive {
		err = journal.OwnerExpired(owner.ID)
	}
	return id, err
}

// Acquire implements [journal.Ownership].
func (s *Store) Acquire(ctx context.Context, key identity.Thread, owner journal.Owner, fence bool) (journal.Claim, error) {
	if err := owner.Validate(); err != nil {
		return journal.Claim{}, err
	}
	if err := key.Validate(); err != nil {
		return journal.Claim{}, err
	}
	return writing(ctx, s, func(t *Tx) (journal.Claim, error) {
		id, err := t.mustLive(owner)
		if err != nil {
			return journal.Claim{}, err
		}
		r, err := t.make(key)
		if err != nil {
			return journal.Claim{}, err
		}
		if r.owner != id && r.lives(t.Now) && !fence {
			return journal.Claim{}, journal.Owned(r.holder)
		}
		return t.acquire(r, id)
	})
}

// acquire gives the thread to a live owner.
func (t *Tx) acquire(r *thread, owner int64) (journal.Claim, error) {
	var previous journal.Owner
	if r.owner != owner {
		if previous = r.prev; r.owner != 0 {
			previous = r.holder
		}
		r.epoch++
		if err := t.give(r, owner, journal.Owner{}); err != nil {
			return journal.Claim{}, err
		}
		var err error
		if r, err = t.byID(r.id); err != nil {
			return journal.Claim{}, err
		}
	}
	head, err := r.head(t.Now)
	return journal.Claim{Head: head, Previous: previous}, err
}

// Release implements [journal.Ownership].
func (s *Store) Release(ctx context.Context, key identity.Thread, owner string, epoch int64) error {
	return s.db.Write(ctx, func(t *Tx) error {
		r, err := t.find(key)
		if err != nil || r == nil || r.owner == 0 || r.epoch != epoch || r.holder.ID != owner {
			return err
		}
		return t.give(r, 0, journal.Owner{})
	})
}
