package journalsql

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Post implements [journal.Mailbox].
func (s *Store) Post(ctx context.Context, key identity.Thread, m journal.Mail) (journal.Head, bool, error) {
	if err := m.Validate(); err != nil {
		return journal.Head{}, false, err
	}
	if err := key.Validate(); err != nil {
		return journal.Head{}, false, err
	}
	type posted struct {
		head  journal.Head
		added bool
	}
	out, err := writing(ctx, s, func(t *Tx) (out posted, err error) {
		r, err := t.make(key)
		if err != nil {
			return out, err
		}
		if out.added, err = t.post(r, m); err != nil {
			return out, err
		}
		if out.added {
			if err := t.Do("UPDATE threads SET mail_next = ?, mail_count = ? WHERE id = ?", r.mailNext, r.mailCount, r.id); err != nil {
				return out, err
			}
			if err := t.setDue(r); err != nil {
				return out, err
			}
		}
		out.head, err = r.head(t.Now)
		return out, err
	})
	return out.head, err == nil && !out.added, err
}

// post adds a message to the mailbox of r, whose counters the caller saves. False: it was there.
func (t *Tx) post(r *thread, m journal.Mail) (added bool, err error) {
	hash := m.Fingerprint()
	var stored []byte
	known, err := t.Get("SELECT hash FROM mail WHERE thread = ? AND message = ?", []any{r.id, m.ID}, &stored)
	if err != nil {
		return false, err
	}
	if known {
		if journal.Sum(stored) != hash {
			return false, journal.MessageMismatch(m.ID)
		}
		return false, nil
	}
	if r.mailCount >= m.Room() {
		return false, journal.TooLarge("the mailbox", int64(m.Room()), int64(r.mailCount)+1)
	}
	r.mailNext++
	r.mailCount++
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	err = t.Do("INSERT INTO mail (thread, place, message, kind, hash, due, posted, wake, consumed, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
		r.id, r.mailNext, m.ID, m.Kind, hash[:], journal.Nanos(m.NotBefore), t.Now.UnixNano(), m.Wake, payload)
	return true, err
}

// consume takes messages out of the mailbox of r, whose counters the caller saves. Id and hash stay, so that a late repeat of the post is known.
func (t *Tx) consume(r *thread, messages []string) error {
	for _, id := range messages {
		n, err := t.Exec("UPDATE mail SET consumed = 1, payload = ? WHERE thread = ? AND message = ? AND consumed = 0", []byte{}, r.id, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return journal.MessageConsumed(id)
		}
		r.mailCount--
	}
	return nil
}

// ListMail implements [journal.Mailbox].
func (s *Store) ListMail(ctx context.Context, key identity.Thread, limit int, future bool) ([]journal.Mail, error) {
	if err := journal.ValidatePage(limit, journal.MaxListMail); err != nil {
		return nil, err
	}
	return reading(ctx, s, func(v *View) ([]journal.Mail, error) {
		row, err := v.must(key)
		if err != nil {
			return nil, err
		}
		return v.mail(row, limit, future, v.Now)
	})
}
