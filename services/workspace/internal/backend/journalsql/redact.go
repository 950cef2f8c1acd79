package journalsql

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Redact implements [journal.Keeper].
func (s *Store) Redact(ctx context.Context, key identity.Thread, seqs []int64, reason string) (journal.Redacted, error) {
	if err := journal.ValidateRedact(seqs, reason); err != nil {
		return journal.Redacted{}, err
	}
	out, err := writing(ctx, s, func(t *Tx) (out journal.Redacted, err error) {
		r, err := t.must(key)
		if err != nil {
			return out, err
		}
		// The first redacted event of each log: everything that comes after it may repeat it.
		firsts := make(map[int64]int64)
		for _, seq := range seqs {
			if seq < 1 || seq > r.seq {
				return out, journal.CursorInvalid(seq, r.seq)
			}
			id, err := t.rowOf(r, seq)
			if err != nil {
				return out, err
			}
			if err := t.bury(id, reason, &out); err != nil {
				return out, err
			}
			if log := id >> 32; firsts[log] == 0 || seq < firsts[log] {
				firsts[log] = seq
			}
		}
		for log, seq := range firsts {
			if err := t.redactAfter(log, seq, reason, &out); err != nil {
				return out, err
			}
		}
		return out, nil
	})
	if err != nil {
		return journal.Redacted{}, err
	}
	s.db.Scrub(ctx)
	return out, nil
}

// bury makes an event a tombstone.
func (t *Tx) bury(id int64, reason string, out *journal.Redacted) error {
	n, err := t.Exec("UPDATE events SET payload = NULL, redacted = 1, in_blob = 0, size = 0, reason = ? WHERE id = ? AND redacted = 0", reason, id)
	if err != nil || n == 0 {
		return err
	}
	gone, err := t.forget(id, id)
	out.Events++
	out.Blobs += gone
	return err
}

// redactAfter follows a redacted event into what was made from it: checkpoints after it in its log and in every log forked after it, and
// titles and heads of their threads. Their owners of now have read what is gone, so what they still write is looked at; see append.
func (t *Tx) redactAfter(log, seq int64, reason string, out *journal.Redacted) error {
	threads, err := t.ids("SELECT id FROM threads WHERE log = ?"+t.Lock, log)
	if err != nil {
		return err
	}
	if err := t.lockLog(log); err != nil {
		return err
	}
	checkpoints, err := t.ids("SELECT id FROM events WHERE type = 'checkpoint/written' AND redacted = 0 AND id > ? AND id < ?", eventID(log, seq), eventID(log+1, 0))
	if err != nil {
		return err
	}
	for _, id := range checkpoints {
		if err := t.bury(id, reason, out); err != nil {
			return err
		}
	}
	for _, id := range threads {
		if err := t.refresh(id); err != nil {
			return err
		}
	}
	forks, err := t.ids("SELECT id FROM logs WHERE parent = ? AND parent > 0 AND base >= ?", log, seq)
	if err != nil {
		return err
	}
	for _, fork := range forks {
		if err := t.redactAfter(fork, seq, reason, out); err != nil {
			return err
		}
	}
	return nil
}

// refresh brings the head of a thread up to the tombstones in its journal.
func (t *Tx) refresh(id int64) error {
	r, err := t.byID(id)
	if err != nil {
		return err
	}
	if r.checkpoint, err = t.lastCheckpoint(r, r.seq); err != nil {
		return err
	}
	var gone bool
	if _, err := t.Get("SELECT redacted FROM events WHERE id = ?", []any{r.titleEvent}, &gone); err != nil {
		return err
	}
	if gone {
		r.title, r.titleEvent = "", 0
	}
	key, err := identity.ParseThread(r.key)
	if err != nil {
		return err
	}
	change, err := t.nextChange(journal.UserOf(key).Key())
	if err != nil {
		return err
	}
	return t.Do("UPDATE threads SET checkpoint = ?, title = ?, title_event = ?, redacted_epoch = epoch, change = ?"+t.Unplaced+" WHERE id = ?",
		r.checkpoint, r.title, r.titleEvent, change, id)
}

// lastCheckpoint returns the last checkpoint of the thread at or before a sequence, 0 when there is none.
func (s *View) lastCheckpoint(r *thread, through int64) (int64, error) {
	if through == 0 {
		return 0, nil
	}
	spans, err := s.spans(r, 1, through)
	if err != nil {
		return 0, err
	}
	for i := len(spans) - 1; i >= 0; i-- {
		var id int64
		if _, err := s.Get("SELECT coalesce(max(id), 0) FROM events WHERE type = 'checkpoint/written' AND redacted = 0 AND id BETWEEN ? AND ?",
			[]any{eventID(spans[i].log, spans[i].from), eventID(spans[i].log, spans[i].to)}, &id); err != nil || id != 0 {
			return id & (1<<32 - 1), err
		}
	}
	return 0, nil
}
