package journalsqlite

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
	expired, err := writing(ctx, s, func(t *tx) (bool, error) {
		now, state := t.now.UnixNano(), ownerAlive
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
			_, err = t.exec("UPDATE owners SET state = max(state, ?) WHERE id = ?", ownerJudged, id)
			return true, err
		}
		_, err = t.exec("UPDATE owners SET expire = ?, address = ?, state = ? WHERE id = ?", now+int64(journal.OwnerLife), owner.Address, state, id)
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
func (t *tx) owner(name string) (id int64, alive bool, err error) {
	var expire, state int64
	_, err = t.get("SELECT id, expire, state FROM owners WHERE name = ?", []any{name}, &id, &expire, &state)
	return id, id != 0 && state == ownerAlive && expire > t.now.UnixNano(), err
}

// addOwner remembers a new owner, and forgets those that died long ago and hold nothing.
func (t *tx) addOwner(owner journal.Owner, state int) error {
	if _, err := t.exec("DELETE FROM owners WHERE state = ? AND expire < ?", ownerReaped, t.now.Add(-ownerMemory).UnixNano()); err != nil {
		return err
	}
	_, err := t.exec("INSERT INTO owners (name, address, expire, state) VALUES (?, ?, ?, ?)",
		owner.ID, owner.Address, t.now.Add(journal.OwnerLife).UnixNano(), state)
	return err
}

// mustLive returns the row of a live owner, or OWNER_EXPIRED.
func (t *tx) mustLive(owner journal.Owner) (int64, error) {
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
	return writing(ctx, s, func(t *tx) (journal.Claim, error) {
		id, err := t.mustLive(owner)
		if err != nil {
			return journal.Claim{}, err
		}
		r, err := t.make(key)
		if err != nil {
			return journal.Claim{}, err
		}
		if r.owner != id && r.lives(t.now) && !fence {
			return journal.Claim{}, journal.Owned(r.holder)
		}
		return t.acquire(r, id)
	})
}

// acquire gives the thread to a live owner.
func (t *tx) acquire(r *thread, owner int64) (journal.Claim, error) {
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
	head, err := r.head(t.now)
	return journal.Claim{Head: head, Previous: previous}, err
}

// Release implements [journal.Ownership].
func (s *Store) Release(ctx context.Context, key identity.Thread, owner string, epoch int64) error {
	return s.write(ctx, func(t *tx) error {
		r, err := t.find(key)
		if err != nil || r == nil || r.owner == 0 || r.epoch != epoch || r.holder.ID != owner {
			return err
		}
		return t.give(r, 0, journal.Owner{})
	})
}
