package journalsql

import (
	"context"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Commit implements [journal.Writer].
func (s *Store) Commit(ctx context.Context, key identity.Thread, b journal.Batch) (journal.Committed, error) {
	if err := b.Validate(); err != nil {
		return journal.Committed{}, err
	}
	return s.CommitValid(ctx, key, b, b.Fingerprint())
}

// CommitValid is [Store.Commit] for a batch that was validated, with its fingerprint.
func (s *Store) CommitValid(ctx context.Context, key identity.Thread, b journal.Batch, hash journal.Sum) (journal.Committed, error) {
	stale := false
	out, err := writing(ctx, s, func(t *Tx) (journal.Committed, error) {
		r, err := t.committable(key, &b)
		if err != nil {
			return journal.Committed{}, err
		}
		if out, known, err := t.repeat(r, &b, hash); err != nil || known {
			return out, err
		}
		if err := t.mayCommit(r, &b); err != nil {
			return journal.Committed{}, err
		}
		stale = r.stale(&b)
		return t.commit(r, key, &b, hash)
	})
	if err == nil && stale {
		s.db.Scrub(ctx) // its blob was in the store already
	}
	return out, err
}

// stale says whether the batch has a checkpoint that may repeat what was redacted since its writer took the thread.
func (r *thread) stale(b *journal.Batch) bool {
	return r.redactedEpoch == r.epoch && slices.ContainsFunc(b.Events, func(e journal.Event) bool { return e.Type == journal.TypeCheckpoint })
}

// committable returns the thread of a commit: FENCED when it was deleted, for its owner held it once.
func (t *Tx) committable(key identity.Thread, b *journal.Batch) (*thread, error) {
	r, err := t.find(key)
	if err != nil || r != nil {
		return r, err
	}
	var epoch int64
	buried, err := t.Get("SELECT epoch FROM graves WHERE key = ?", []any{key.Key()}, &epoch)
	if err != nil {
		return nil, err
	}
	if buried {
		return nil, journal.Fenced(b.Epoch, epoch)
	}
	return nil, journal.NotFound(key)
}

// repeat answers a batch that was committed before. The order of checks is the contract's.
func (t *Tx) repeat(r *thread, b *journal.Batch, hash journal.Sum) (out journal.Committed, known bool, err error) {
	var (
		stored   []byte
		at       int64
		released bool
	)
	known, err = t.Get("SELECT hash, seq, time, released FROM batches WHERE thread = ? AND batch = ?", []any{r.id, b.ID},
		&stored, &out.Seq, &at, &released)
	if err != nil {
		return out, known, err
	}
	same := known && journal.Sum(stored) == hash
	if b.Epoch != r.epoch && !(same && released) {
		return out, known, journal.Fenced(b.Epoch, r.epoch)
	}
	if !known {
		return out, false, nil
	}
	if !same {
		return out, true, journal.BatchMismatch(b.ID)
	}
	out.Time = journal.AtNanos(at)
	if b.Epoch == r.epoch {
		out.Mail, err = t.mail(r, journal.CommitMail, false, t.Now)
	}
	return out, true, err
}

// mayCommit checks the owner and the head.
func (t *Tx) mayCommit(r *thread, b *journal.Batch) error {
	switch {
	case r.owner == 0 || r.holder.ID != b.Owner:
		if _, alive, err := t.owner(b.Owner); err != nil || !alive {
			return errOr(err, journal.OwnerExpired(b.Owner))
		}
		return journal.Fenced(b.Epoch, r.epoch)
	case r.ownerSta != ownerAlive:
		return journal.OwnerExpired(b.Owner)
	case b.Expected >= 0 && b.Expected != r.seq:
		return journal.SequenceConflict(b.Expected, r.seq)
	case r.seq+int64(len(b.Events)) > journal.MaxSeq:
		return journal.TooLarge("the journal", journal.MaxSeq, r.seq+int64(len(b.Events)))
	}
	return nil
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// commit makes the batch.
func (t *Tx) commit(r *thread, key identity.Thread, b *journal.Batch, hash journal.Sum) (journal.Committed, error) {
	var none journal.Committed
	if err := t.consume(r, b.Consume); err != nil {
		return none, err
	}
	for i := range b.Events {
		if err := t.append(r, key.Tenant, &b.Events[i], i == len(b.Events)-1); err != nil {
			return none, err
		}
	}
	for _, m := range b.Mail {
		if _, err := t.post(r, m); err != nil {
			return none, err
		}
	}
	r.run = r.run.Next(b.Run)
	switch {
	case b.Title != "":
		r.title, r.titleEvent = b.Title, 0
	case b.TitleHint != "" && r.title == "":
		r.title, r.titleEvent = b.TitleHint, eventID(r.log, r.seq-int64(len(b.Events))+1+int64(b.TitleFrom))
	}
	if err := t.saveCommit(r, journal.UserOf(key).Key(), len(b.Events) > 0 || b.Title != "" || b.Run.State != journal.RunNone); err != nil {
		return none, err
	}
	if err := t.setDue(r); err != nil {
		return none, err
	}
	if b.Release {
		if err := t.give(r, 0, journal.Owner{}); err != nil {
			return none, err
		}
	}
	if err := t.Do("INSERT INTO batches (thread, batch, hash, seq, time, released) VALUES (?, ?, ?, ?, ?, ?)",
		r.id, b.ID, hash[:], r.seq, t.Now.UnixNano(), b.Release); err != nil {
		return none, err
	}
	t.changed(r.id)
	mail, err := t.mail(r, journal.CommitMail, false, t.Now)
	return journal.Committed{Seq: r.seq, Time: t.Now, Mail: mail}, err
}

// saveCommit writes the head after a batch. Owner and due time are in indexes and written apart, when they change.
func (t *Tx) saveCommit(r *thread, user string, changed bool) error {
	if changed {
		var err error
		if r.change, err = t.nextChange(user); err != nil {
			return err
		}
		r.updated = t.Now.UnixNano()
	}
	unplaced := t.Unplaced
	if !changed {
		unplaced = ""
	}
	return t.Do(`UPDATE threads SET seq = ?, sum = ?, run = ?, run_state = ?, task = ?, checkpoint = ?, need_schema = ?, updated = ?, title = ?,
 title_event = ?, mail_next = ?, mail_count = ?, change = ?`+unplaced+` WHERE id = ?`, r.seq, r.sum, r.run.ID, r.run.State, r.run.TaskID, r.checkpoint,
		r.needSchema, r.updated, r.title, r.titleEvent, r.mailNext, r.mailCount, r.change, r.id)
}

// append adds an event to the thread's log.
func (t *Tx) append(r *thread, tenant string, e *journal.Event, last bool) error {
	stored := *e
	stored.Seq, stored.Time = r.seq+1, t.Now
	id, sum := eventID(r.log, stored.Seq), journal.Chain(journal.Sum(r.sum), &stored)
	payload, inBlob := e.Payload, len(e.Payload) > journal.InlinePayloadBytes
	if payload == nil {
		payload = []byte{}
	}
	if inBlob {
		blob, err := t.putBlob(tenant, e.PayloadHash, e.Payload, false)
		if err != nil {
			return err
		}
		if err := t.refer(id, blob); err != nil {
			return err
		}
		payload = nil
	}
	if err := t.Do(`INSERT INTO events (id, time, schema, event, type, run, turn, step, required, batch_end, redacted, reason, in_blob, size, hash, sum, payload)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', ?, ?, ?, ?, ?)`, id, stored.Time.UnixNano(), e.Schema, e.ID, e.Type, e.RunID, e.TurnID, e.Step,
		e.Required, last, inBlob, len(e.Payload), e.PayloadHash[:], sum[:], payload); err != nil {
		return err
	}
	for _, named := range e.Blobs {
		if err := t.name(tenant, id, named); err != nil {
			return err
		}
	}
	r.seq, r.sum = stored.Seq, sum[:]
	if e.Type == journal.TypeCheckpoint && r.redactedEpoch == r.epoch {
		// Whoever writes it took the thread before events were redacted, and may repeat what they said: it is stored as what a later Redact would leave of it.
		return t.bury(id, journal.ReasonStaleCheckpoint, new(journal.Redacted))
	}
	if e.Type == journal.TypeCheckpoint {
		r.checkpoint = r.seq
	}
	if e.Required {
		r.needSchema = max(r.needSchema, int64(e.Schema))
	}
	return nil
}

// eventID is the row id of an event.
func eventID(log, seq int64) int64 { return log<<32 | seq }

// mail returns open messages in order; those that are not due only when future is set.
func (s *View) mail(r *thread, limit int, future bool, now time.Time) ([]journal.Mail, error) {
	if r.mailCount == 0 {
		return nil, nil
	}
	return s.openMail(r.id, limit, future, now)
}

// DueMail is the mail in the answer of a commit to the thread of this row.
func (s *View) DueMail(thread int64) ([]journal.Mail, error) {
	return s.openMail(thread, journal.CommitMail, false, s.Now)
}

func (s *View) openMail(thread int64, limit int, future bool, now time.Time) ([]journal.Mail, error) {
	until := now.UnixNano()
	if future {
		until = never
	}
	var (
		mail []journal.Mail
		size int
	)
	err := s.Each("SELECT message, kind, payload, due, posted, place, wake FROM mail WHERE thread = ? AND consumed = 0 AND due <= ? ORDER BY place LIMIT ?",
		[]any{thread, until, limit}, func(scan func(...any) error) (bool, error) {
			var m journal.Mail
			var due, posted int64
			if err := scan(&m.ID, &m.Kind, &m.Payload, &due, &posted, &m.Order, &m.Wake); err != nil {
				return false, err
			}
			m.NotBefore, m.Posted = journal.AtNanos(due), journal.AtNanos(posted)
			if size += len(m.Payload); size > journal.PageBytes && len(mail) > 0 {
				return false, nil
			}
			mail = append(mail, m)
			return true, nil
		})
	return mail, err
}
