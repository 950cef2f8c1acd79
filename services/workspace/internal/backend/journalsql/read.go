package journalsql

import (
	"context"
	"slices"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Head implements [journal.Reader].
func (s *Store) Head(ctx context.Context, key identity.Thread) (journal.Head, error) {
	return reading(ctx, s, func(v *View) (journal.Head, error) {
		row, err := v.must(key)
		if err != nil {
			return journal.Head{}, err
		}
		return row.head(v.Now)
	})
}

// Read implements [journal.Reader].
func (s *Store) Read(ctx context.Context, key identity.Thread, request journal.ReadRequest) (journal.Page, error) {
	return reading(ctx, s, func(v *View) (page journal.Page, err error) {
		row, err := v.must(key)
		if err != nil {
			return page, err
		}
		if page.Head, err = row.head(v.Now); err != nil {
			return page, err
		}
		page.Events, page.Next, err = v.events(row, key.Tenant, request)
		return page, err
	})
}

// events reads and verifies one page, and returns the last sequence looked at.
func (s *View) events(r *thread, tenant string, request journal.ReadRequest) ([]journal.Event, int64, error) {
	if request.After < 0 || request.After > r.seq {
		return nil, 0, journal.CursorInvalid(request.After, r.seq)
	}
	through := r.seq
	if request.Through > 0 {
		through = min(through, request.Through)
	}
	check := journal.Verifier{Seq: request.After}
	if err := s.sumAt(r, request.After, &check.Sum); err != nil {
		return nil, 0, err
	}
	if request.After >= through {
		return nil, request.After, nil
	}
	spans, err := s.spans(r, request.After+1, through)
	if err != nil {
		return nil, 0, err
	}
	p := pager{request: request, check: check}
	for _, sp := range spans {
		err := s.Each(`SELECT id, time, schema, event, type, run, turn, step, required, redacted, reason, in_blob, size, hash, sum, payload
 FROM events WHERE id BETWEEN ? AND ? ORDER BY id`, []any{eventID(sp.log, sp.from), eventID(sp.log, sp.to)}, p.row)
		if err != nil {
			return nil, 0, err
		}
		if p.full {
			break
		}
		if p.check.Seq < sp.to {
			return nil, 0, journal.Damaged(p.check.Seq+1, "the record is missing")
		}
	}
	if p.check.Seq == r.seq && p.check.Sum != journal.Sum(r.sum) {
		return nil, 0, journal.Damaged(r.seq, "the head does not have the last record's checksum")
	}
	for _, i := range p.inBlob {
		if err := s.blob(tenant, p.events[i].PayloadHash, &p.events[i].Payload); err != nil {
			return nil, 0, err
		}
		if err := p.events[i].CheckPayload(); err != nil {
			return nil, 0, err
		}
	}
	return p.events, p.check.Seq, nil
}

// pager collects the rows of a page.
type pager struct {
	request journal.ReadRequest
	check   journal.Verifier
	events  []journal.Event
	inBlob  []int
	looked  int
	bytes   int64
	full    bool
}

// row takes the next row, unless it does not fit into the page any more.
func (p *pager) row(scan func(...any) error) (bool, error) {
	var (
		e               journal.Event
		id, at, size    int64
		hash, sum, body []byte
		inBlob          bool
	)
	if err := scan(&id, &at, &e.Schema, &e.ID, &e.Type, &e.RunID, &e.TurnID, &e.Step, &e.Required, &e.Redacted, &e.Reason, &inBlob, &size,
		&hash, &sum, &body); err != nil {
		return false, err
	}
	e.Seq, e.Time = id&(1<<32-1), journal.AtNanos(at)
	if len(hash) != len(e.PayloadHash) || len(sum) != len(e.PayloadHash) {
		return false, journal.Damaged(e.Seq, "the record has no checksum")
	}
	e.PayloadHash = journal.Sum(hash)
	wanted := len(p.request.Types) == 0 || slices.Contains(p.request.Types, e.Type)
	if wanted && len(p.events) > 0 && p.bytes+size > journal.PageBytes {
		p.full = true
		return false, nil
	}
	if err := p.check.Check(&e, journal.Sum(sum)); err != nil {
		return false, err
	}
	if wanted {
		if !e.Redacted {
			e.Payload, p.bytes = body, p.bytes+size
			if inBlob {
				p.inBlob = append(p.inBlob, len(p.events))
			} else if err := e.CheckPayload(); err != nil {
				return false, err
			}
		}
		p.events = append(p.events, e)
	}
	p.looked++
	limit := journal.PageEvents
	if p.request.Limit > 0 {
		limit = min(limit, p.request.Limit)
	}
	p.full = len(p.events) >= limit || p.looked >= lookAhead
	return !p.full, nil
}

// span is a range of sequences in one log, both ends included.
type span struct{ log, from, to int64 }

// spans says which logs hold the sequences from to to: the thread's own, and before its beginning those that it was forked from.
func (s *View) spans(r *thread, from, to int64) ([]span, error) {
	var out []span
	log, base := r.log, r.base
	for {
		if lo := max(from, base+1); lo <= to {
			out = append(out, span{log, lo, to})
			to = lo - 1
		}
		if from > to {
			slices.Reverse(out)
			return out, nil
		}
		parent, above, err := s.parent(log)
		if err != nil {
			return nil, err
		}
		if parent == 0 {
			return nil, journal.Damaged(to, "the log of the thread that this one was forked from is missing")
		}
		to = min(to, base)
		log, base = parent, above
	}
}

// parent returns the log that a log was forked from (0: none) and where that one begins.
func (s *View) parent(log int64) (parent, base int64, err error) {
	_, err = s.Get("SELECT l.parent, coalesce(p.base, 0) FROM logs l LEFT JOIN logs p ON p.id = l.parent WHERE l.id = ?", []any{log}, &parent, &base)
	return parent, base, err
}

// rowOf returns the row id of an event of the thread.
func (s *View) rowOf(r *thread, seq int64) (int64, error) {
	spans, err := s.spans(r, seq, seq)
	if err != nil {
		return 0, err
	}
	return eventID(spans[0].log, seq), nil
}

// sumAt reads the checksum of the event at seq; zero before the first.
func (s *View) sumAt(r *thread, seq int64, into *journal.Sum) error {
	if seq == 0 {
		return nil
	}
	id, err := s.rowOf(r, seq)
	if err != nil {
		return err
	}
	var sum []byte
	found, err := s.Get("SELECT sum FROM events WHERE id = ?", []any{id}, &sum)
	if err != nil {
		return err
	}
	if !found || len(sum) != len(into) {
		return journal.Damaged(seq, "the record is missing")
	}
	*into = journal.Sum(sum)
	return nil
}

// Await implements [journal.Reader].
func (s *Store) Await(ctx context.Context, key identity.Thread, after int64) error {
	var id int64
	look := func() (seq int64, err error) {
		err = s.db.Read(ctx, func(r *View) error {
			var found int64
			ok, err := r.Get("SELECT id, seq FROM threads WHERE key = ?", []any{key.Key()}, &found, &seq)
			if err != nil {
				return err
			}
			if !ok || (id != 0 && id != found) {
				// A thread that was made anew under the key is another one.
				return journal.NotFound(key)
			}
			id = found
			return nil
		})
		return seq, err
	}
	if seq, err := look(); err != nil || seq > after {
		return err
	}
	s.notify.join(id)
	defer s.notify.leave(id)
	for {
		change := s.notify.next(id)
		if seq, err := look(); err != nil || seq > after {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.quit:
			return ErrClosed
		}
	}
}
