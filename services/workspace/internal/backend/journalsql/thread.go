package journalsql

import (
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// never is [journal.Never] as it is stored.
const never = 1<<63 - 1

// The states of an owner.
const (
	ownerAlive = iota
	ownerJudged
	ownerReaped
)

// thread is a row of threads with its owner's.
type thread struct {
	id, log, base      int64
	key                string
	seq, epoch         int64
	sum                []byte
	owner              int64
	prev               journal.Owner
	run                journal.Run
	checkpoint         int64
	needSchema         int64
	created, updated   int64
	title              string
	titleEvent         int64
	mailNext           int64
	mailCount          int
	due, change, place int64
	redactedEpoch      int64 // the owner of that epoch may still know what was redacted
	forkedFrom         string
	holder             journal.Owner
	ownerExp, ownerSta int64
}

const threadColumns = `SELECT t.id, t.log, t.base, t.key, t.seq, t.epoch, t.sum, t.owner, t.prev_owner, t.prev_address, t.run, t.run_state, t.task,
 t.checkpoint, t.need_schema, t.created, t.updated, t.title, t.title_event, t.mail_next, t.mail_count, t.due, t.change, t.forked_from, t.redacted_epoch,
 coalesce(o.name, ''), coalesce(o.address, ''), coalesce(o.expire, 0), coalesce(o.state, 2)
, t.`

// rowsOf is the select of threads; a condition follows.
func (d *Dialect) rowsOf() string {
	return threadColumns + d.place() + " FROM threads t LEFT JOIN owners o ON o.id = t.owner "
}

func (r *thread) fields() []any {
	return []any{&r.id, &r.log, &r.base, &r.key, &r.seq, &r.epoch, &r.sum, &r.owner, &r.prev.ID, &r.prev.Address, &r.run.ID, &r.run.State, &r.run.TaskID,
		&r.checkpoint, &r.needSchema, &r.created, &r.updated, &r.title, &r.titleEvent, &r.mailNext, &r.mailCount, &r.due, &r.change, &r.forkedFrom, &r.redactedEpoch,
		&r.holder.ID, &r.holder.Address, &r.ownerExp, &r.ownerSta, &r.place}
}

// find returns the thread, or nil.
func (s *View) find(t identity.Thread) (*thread, error) {
	r := new(thread)
	ok, err := s.Get(s.rowsOf()+"WHERE t.key = ?", []any{t.Key()}, r.fields()...)
	if err != nil || !ok {
		return nil, err
	}
	return r, nil
}

// must returns the thread, or THREAD_NOT_FOUND.
func (s *View) must(t identity.Thread) (*thread, error) {
	r, err := s.find(t)
	if err == nil && r == nil {
		err = journal.NotFound(t)
	}
	return r, err
}

// byID returns the thread, which exists.
func (s *View) byID(id int64) (*thread, error) {
	r := new(thread)
	_, err := s.Get(s.rowsOf()+"WHERE t.id = ?", []any{id}, r.fields()...)
	return r, err
}

// find returns the thread, or nil, and keeps others from changing it.
func (t *Tx) find(key identity.Thread) (*thread, error) {
	if t.Lock != "" {
		if err := t.Do("SELECT 1 FROM threads WHERE key = ?"+t.Lock, key.Key()); err != nil {
			return nil, err
		}
	}
	r, err := t.View.find(key)
	if err == nil && r != nil {
		t.notBefore(r.updated)
	}
	return r, err
}

// must returns the thread as find does, or THREAD_NOT_FOUND.
func (t *Tx) must(key identity.Thread) (*thread, error) {
	r, err := t.find(key)
	if err == nil && r == nil {
		err = journal.NotFound(key)
	}
	return r, err
}

// byID returns the thread, which exists, as find does.
func (t *Tx) byID(id int64) (*thread, error) {
	if t.Lock != "" {
		if err := t.Do("SELECT 1 FROM threads WHERE id = ?"+t.Lock, id); err != nil {
			return nil, err
		}
	}
	return t.View.byID(id)
}

// maxHold is how far the clock may run back without being noticed.
const maxHold = int64(time.Second)

// notBefore keeps the time of an operation that waited for another one on the thread from being before that one's.
func (t *Tx) notBefore(last int64) {
	if now := t.Now.UnixNano(); now < last && last-now <= maxHold {
		t.Now = time.Unix(0, last).UTC()
	}
}

// lives says whether the thread has a live owner.
func (r *thread) lives(now time.Time) bool {
	return r.owner != 0 && r.ownerSta == ownerAlive && r.ownerExp > now.UnixNano()
}

// head describes the row.
func (r *thread) head(now time.Time) (journal.Head, error) {
	t, err := identity.ParseThread(r.key)
	if err != nil {
		return journal.Head{}, journal.Damaged(0, "the thread's key")
	}
	h := journal.Head{
		Thread: t, Seq: r.seq, Epoch: r.epoch, Run: r.run, CheckpointSeq: r.checkpoint, Created: journal.AtNanos(r.created),
		Updated: journal.AtNanos(r.updated), Title: r.title, MailCount: r.mailCount, ForkedAt: r.base,
	}
	if r.lives(now) {
		h.Owner = r.holder
	}
	if r.forkedFrom == "" {
		return h, nil
	}
	from, err := identity.ParseThread(r.forkedFrom)
	if err != nil {
		return journal.Head{}, journal.Damaged(0, "the key of the thread's origin")
	}
	h.ForkedFrom = &from
	return h, nil
}

// make returns the thread, making it when it does not exist. A key that had a thread goes on with its epoch.
func (t *Tx) make(key identity.Thread) (*thread, error) {
	r, err := t.find(key)
	if err != nil || r != nil {
		return r, err
	}
	log, err := t.Insert("INSERT INTO logs (parent, base, depth, alive) VALUES (0, 0, 0, 1)")
	if err != nil {
		return nil, err
	}
	return t.create(key, &thread{log: log, sum: make([]byte, len(journal.Sum{})), due: never})
}

// create inserts a row for the key with what r says of its journal.
func (t *Tx) create(key identity.Thread, r *thread) (*thread, error) {
	if r.log >= 1<<31 {
		return nil, journal.TooLarge("the number of journals", 1<<31-1, r.log)
	}
	user := journal.UserOf(key).Key()
	change, err := t.nextChange(user)
	if err != nil {
		return nil, err
	}
	r.key, r.created, r.updated, r.change = key.Key(), t.Now.UnixNano(), t.Now.UnixNano(), change
	if _, err := t.Get("SELECT epoch FROM graves WHERE key = ?", []any{r.key}, &r.epoch); err != nil {
		return nil, err
	}
	if err := t.Do("DELETE FROM graves WHERE key = ?", r.key); err != nil {
		return nil, err
	}
	r.id, err = t.Insert(`INSERT INTO threads (key, tenant, user_key, log, base, seq, sum, epoch, owner, prev_owner, prev_address, run, run_state, task,
 checkpoint, need_schema, created, updated, title, title_event, mail_next, mail_count, due, change, forked_from)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', '', 0, '', ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`,
		r.key, key.Tenant, user, r.log, r.base, r.seq, r.sum, r.epoch, r.checkpoint, r.needSchema, r.created, r.updated, r.title, r.titleEvent,
		r.due, r.change, r.forkedFrom)
	return r, err
}

// nextChange returns the number of the user's next change.
func (t *Tx) nextChange(user string) (int64, error) {
	query := t.NextChange
	if query == "" {
		query = `SELECT 1 + max(coalesce((SELECT max(change) FROM threads WHERE user_key = ?1), 0),
 coalesce((SELECT max(change) FROM graves WHERE user_key = ?1), 0))`
	}
	var n int64
	_, err := t.Get(query, []any{user}, &n)
	return n, err
}

// setDue brings the due time of the thread up to its run and mail.
func (t *Tx) setDue(r *thread) error {
	wake := int64(never)
	if r.mailCount > 0 {
		if _, err := t.Get("SELECT coalesce(min(due), ?2) FROM mail WHERE thread = ?1 AND consumed = 0 AND wake = 1",
			[]any{r.id, int64(never)}, &wake); err != nil {
			return err
		}
	}
	due := journal.Nanos(journal.DueAt(r.run, journal.AtNanos(wake)))
	if due != r.due {
		r.due = due
		if err := t.Do("UPDATE threads SET due = ? WHERE id = ?", due, r.id); err != nil {
			return err
		}
	}
	if r.owner == 0 && due < never {
		t.due()
	}
	return nil
}

// give makes the owner (a row of owners, 0 for none) the holder. prev is kept for whoever comes next.
func (t *Tx) give(r *thread, owner int64, prev journal.Owner) error {
	r.owner, r.prev = owner, prev
	err := t.Do("UPDATE threads SET owner = ?, epoch = ?, prev_owner = ?, prev_address = ? WHERE id = ?", owner, r.epoch, prev.ID, prev.Address, r.id)
	if owner == 0 && r.due < never {
		t.due()
	}
	return err
}
