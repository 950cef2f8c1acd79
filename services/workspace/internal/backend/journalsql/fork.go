package journalsql

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Fork implements [journal.Keeper].
func (s *Store) Fork(ctx context.Context, key identity.Thread, at int64, to string) (journal.Head, error) {
	target := key
	target.Session = to
	if err := target.Validate(); err != nil {
		return journal.Head{}, err
	}
	return writing(ctx, s, func(t *Tx) (journal.Head, error) {
		r, err := t.must(key)
		if err != nil {
			return journal.Head{}, err
		}
		if at < 0 || at > r.seq {
			return journal.Head{}, journal.CursorInvalid(at, r.seq)
		}
		if other, err := t.find(target); err != nil || other != nil {
			return journal.Head{}, errOr(err, journal.ThreadExists(target))
		}
		last := at
		if at == 0 {
			last = r.seq
		}
		made, err := t.fork(r, last, target)
		if err != nil {
			return journal.Head{}, err
		}
		return made.head(t.Now)
	})
}

// fork makes the thread that shares the events of r up to at.
func (t *Tx) fork(r *thread, at int64, target identity.Thread) (*thread, error) {
	made := &thread{base: at, seq: at, due: never, needSchema: r.needSchema, forkedFrom: r.key}
	var sum journal.Sum
	if err := t.sumAt(r, at, &sum); err != nil {
		return nil, err
	}
	made.sum = sum[:]
	parent, err := t.forkPoint(r, at)
	if err != nil {
		return nil, err
	}
	var depth int64
	if parent != 0 {
		if err := t.lockLog(parent); err != nil {
			return nil, err
		}
		if _, err := t.Get("SELECT depth + 1 FROM logs WHERE id = ?", []any{parent}, &depth); err != nil {
			return nil, err
		}
	}
	if depth > journal.MaxForkDepth {
		return nil, journal.TooLarge("the depth of forks", journal.MaxForkDepth, depth)
	}
	if made.checkpoint, err = t.lastCheckpoint(r, at); err != nil {
		return nil, err
	}
	// A title made from an event comes along only with that event.
	if r.titleEvent == 0 || r.titleEvent&(1<<32-1) <= at {
		made.title, made.titleEvent = r.title, r.titleEvent
	}
	if made.log, err = t.Insert("INSERT INTO logs (parent, base, depth, alive) VALUES (?, ?, ?, 1)", parent, at, depth); err != nil {
		return nil, err
	}
	return t.create(target, made)
}

// forkPoint returns the log that holds the event at, or NO_FORK_POINT when that is not the last of its batch. It is the parent of the fork even when r is a
// fork itself, so that forks of old events do not make chains.
func (t *Tx) forkPoint(r *thread, at int64) (log int64, err error) {
	if at == 0 {
		return 0, nil
	}
	id, err := t.rowOf(r, at)
	if err != nil {
		return 0, err
	}
	var end bool
	if _, err := t.Get("SELECT batch_end FROM events WHERE id = ?", []any{id}, &end); err != nil {
		return 0, err
	}
	if end {
		return id >> 32, nil
	}
	// A batch lies in one log, and before it is the end of another batch, the fork's base or nothing.
	nearest := r.base
	if at <= r.base {
		nearest = 0
	}
	var last int64
	if _, err := t.Get("SELECT coalesce(max(id), 0) FROM events WHERE batch_end = 1 AND id BETWEEN ? AND ?",
		[]any{max(eventID(id>>32, 1), id-journal.MaxBatchEvents), id}, &last); err != nil {
		return 0, err
	}
	if last != 0 {
		nearest = last & (1<<32 - 1)
	}
	return 0, journal.NoForkPoint(at, nearest)
}
