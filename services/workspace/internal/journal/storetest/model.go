package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// modelCases run random operations of three owners on three threads against a store and a model of it that is small enough to be seen to be right.
var modelCases = []Case{{"model/random operations", func(tb testing.TB, open Factory) {
	for seed := range uint64(6) {
		m := &model{env: start(tb, open), rand: rand.New(rand.NewPCG(seed, 1)), threads: map[string]*modelThread{}, owners: map[string]*modelOwner{}}
		for range 400 {
			m.step()
			if tb.Failed() {
				tb.Fatalf("seed %d, operations:\n%v", seed, m.trace)
			}
		}
	}
}}}

type modelOwner struct {
	expire time.Time
	judged bool
}

type modelMail struct {
	mail     journal.Mail
	consumed bool
}

type modelThread struct {
	epoch   int64
	owner   string
	events  []string
	mail    []*modelMail
	run     journal.Run
	batches map[string]modelBatch
}

type modelBatch struct {
	batch journal.Batch
	seq   int64
}

type model struct {
	*env
	rand    *rand.Rand
	threads map[string]*modelThread
	owners  map[string]*modelOwner
	// held is what each owner believes to own: never corrected.
	held  map[string]journal.Claim
	trace []string
	boots int
}

var modelOwners = []string{"r1/", "r2/", "r3/"}

func (m *model) step() {
	replica := modelOwners[m.rand.IntN(len(modelOwners))]
	id := fmt.Sprint(replica, m.boots/8)
	session := string(rune('a' + m.rand.IntN(3)))
	if m.held == nil {
		m.held = make(map[string]journal.Claim)
	}
	switch n := m.rand.IntN(20); {
	case n < 3:
		m.doHeartbeat(id)
	case n < 6:
		m.doAcquire(id, session)
	case n < 12:
		m.doCommit(id, session)
	case n < 15:
		m.doPost(session)
	case n < 16:
		m.doRelease(id, session)
	case n < 18:
		m.doClaim(id)
	default:
		d := time.Duration(m.rand.Int64N(int64(journal.OwnerLife)))
		m.say("clock +%v", d)
		m.clock.Move(d)
	}
	m.compare(session)
}

func (m *model) say(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...)+"\n")
}

// expect compares the reason of an error.
func (m *model) expect(err error, reason string) bool {
	m.Helper()
	if got := errdefs.ReasonOf(err); got != reason || (reason == "") != (err == nil) {
		m.Errorf("error %v, want reason %q", err, reason)
		return false
	}
	return err == nil
}

func (m *model) lives(id string) bool {
	o := m.owners[id]
	return o != nil && !o.judged && m.clock.Now().Before(o.expire)
}

func (m *model) doHeartbeat(id string) {
	m.say("heartbeat %s", id)
	_, err := m.Heartbeat(m.ctx, owner(id), false)
	o := m.owners[id]
	if o != nil && !m.lives(id) {
		o.judged = true
		m.boots++
		m.expect(err, journal.ReasonOwnerExpired)
		return
	}
	m.expect(err, "")
	m.owners[id] = &modelOwner{expire: m.clock.Now().Add(journal.OwnerLife)}
}

// take is the acquisition of the model.
func (m *model) take(id, session string) int64 {
	t := m.threads[session]
	if t == nil {
		t = &modelThread{batches: map[string]modelBatch{}}
		m.threads[session] = t
	}
	if t.owner != id {
		t.epoch++
		t.owner = id
	}
	return t.epoch
}

func (m *model) doAcquire(id, session string) {
	fence := m.rand.IntN(8) == 0
	m.say("acquire %s %s fence=%v", id, session, fence)
	c, err := m.Acquire(m.ctx, thread(session), owner(id), fence)
	t := m.threads[session]
	switch {
	case !m.lives(id):
		m.expect(err, journal.ReasonOwnerExpired)
		return
	case t != nil && t.owner != "" && t.owner != id && m.lives(t.owner) && !fence:
		m.expect(err, journal.ReasonOwned)
		return
	}
	if m.expect(err, "") && c.Head.Epoch != m.take(id, session) {
		m.Errorf("epoch %d, want %d", c.Head.Epoch, m.threads[session].epoch)
	}
	m.held[id+session] = c
}

func (m *model) doRelease(id, session string) {
	c := m.held[id+session]
	m.say("release %s %s epoch %d", id, session, c.Head.Epoch)
	m.expect(m.Release(m.ctx, thread(session), id, c.Head.Epoch), "")
	if t := m.threads[session]; t != nil && t.owner == id && t.epoch == c.Head.Epoch {
		t.owner = ""
	}
}

func (m *model) doPost(session string) {
	mail := journal.Mail{ID: fmt.Sprint("m", m.rand.IntN(30)), Kind: "input", Payload: []byte{byte(m.rand.IntN(8) / 7)}, Wake: m.rand.IntN(2) == 0}
	m.say("post %s %s wake=%v payload %v", session, mail.ID, mail.Wake, mail.Payload)
	_, duplicate, err := m.Post(m.ctx, thread(session), mail)
	t := m.threads[session]
	if t == nil {
		t = &modelThread{batches: map[string]modelBatch{}}
		m.threads[session] = t
	}
	for _, known := range t.mail {
		if known.mail.ID != mail.ID {
			continue
		}
		if known.mail.Fingerprint() != mail.Fingerprint() {
			m.expect(err, journal.ReasonMessageMismatch)
			return
		}
		if m.expect(err, "") && !duplicate {
			m.Errorf("a repeat is no duplicate")
		}
		return
	}
	if m.expect(err, "") && duplicate {
		m.Errorf("a new message is a duplicate")
	}
	t.mail = append(t.mail, &modelMail{mail: mail})
}

// doCommit commits with what the owner believes; sometimes a repeat, sometimes with a wrong sequence.
func (m *model) doCommit(id, session string) {
	c, held := m.held[id+session]
	if !held {
		return
	}
	t := m.threads[session]
	b := m.batch(c, m.id("p"))
	b.Owner = id
	if m.rand.IntN(5) == 0 {
		for _, done := range t.batches {
			b = done.batch
			b.Owner, b.Epoch = id, c.Head.Epoch
			break
		}
	} else {
		m.vary(&b, t)
	}
	m.say("commit %s %s epoch %d batch %s expected %d consume %v run %+v release %v", id, session, b.Epoch, b.ID, b.Expected, b.Consume, b.Run, b.Release)
	out, err := m.Commit(m.ctx, thread(session), b)
	reason := t.judge(&b, m)
	if !m.expect(err, reason) {
		return
	}
	if done, known := t.batches[b.ID]; known {
		if out.Seq != done.seq {
			m.Errorf("repeat at %d, want %d", out.Seq, done.seq)
		}
		return
	}
	t.apply(&b)
	if out.Seq != int64(len(t.events)) {
		m.Errorf("committed at %d, want %d", out.Seq, len(t.events))
	}
	t.batches[b.ID] = modelBatch{batch: b, seq: out.Seq}
}

// vary makes the batch do something.
func (m *model) vary(b *journal.Batch, t *modelThread) {
	if m.rand.IntN(3) == 0 {
		b.Expected = int64(len(t.events)) - int64(m.rand.IntN(4)/3)
		b.Expected = max(b.Expected, 0)
	}
	for _, mail := range t.mail {
		if !mail.consumed && m.rand.IntN(2) == 0 || m.rand.IntN(40) == 0 {
			b.Consume = append(b.Consume, mail.mail.ID)
		}
	}
	if m.rand.IntN(2) == 0 {
		b.Run = journal.Run{ID: fmt.Sprint("run", m.rand.IntN(2)), State: journal.RunState(1 + m.rand.IntN(3))}
	}
	b.Release = m.rand.IntN(6) == 0
}

// judge says what a right store answers.
func (t *modelThread) judge(b *journal.Batch, m *model) string {
	done, known := t.batches[b.ID]
	if b.Epoch != t.epoch && !(known && done.batch.Release) {
		return journal.ReasonFenced
	}
	if known {
		return ""
	}
	o := m.owners[b.Owner]
	if t.owner != b.Owner {
		if !m.lives(b.Owner) {
			return journal.ReasonOwnerExpired
		}
		return journal.ReasonFenced
	}
	if o.judged {
		return journal.ReasonOwnerExpired
	}
	if b.Expected >= 0 && b.Expected != int64(len(t.events)) {
		return journal.ReasonSequenceConflict
	}
	for _, id := range b.Consume {
		for _, mail := range t.mail {
			if mail.mail.ID == id && mail.consumed {
				return journal.ReasonMessageConsumed
			}
		}
	}
	return ""
}

func (t *modelThread) apply(b *journal.Batch) {
	for _, ev := range b.Events {
		t.events = append(t.events, string(ev.Payload))
	}
	for _, mail := range t.mail {
		mail.consumed = mail.consumed || slices.Contains(b.Consume, mail.mail.ID)
	}
	switch {
	case b.Run.State == journal.RunRunning || b.Run.State == journal.RunSuspended:
		t.run = b.Run
	case b.Run.State == journal.RunEnded && t.run.ID == b.Run.ID:
		t.run = journal.Run{}
	}
	if b.Release {
		t.owner = ""
	}
}

func (t *modelThread) open() []string {
	ids := []string{}
	for _, mail := range t.mail {
		if !mail.consumed {
			ids = append(ids, mail.mail.ID)
		}
	}
	return ids
}

// doClaim claims everything, so the order does not matter.
func (m *model) doClaim(id string) {
	m.say("claim %s", id)
	claims, err := m.ClaimExpired(m.ctx, journal.ClaimRequest{Owner: owner(id), Max: journal.MaxClaims, MaxSchema: 1})
	if !m.lives(id) {
		m.expect(err, journal.ReasonOwnerExpired)
		return
	}
	if !m.expect(err, "") {
		return
	}
	for name, o := range m.owners {
		o.judged = o.judged || !m.lives(name)
	}
	want := []string{}
	for session, t := range m.threads {
		if t.owner != "" && !m.lives(t.owner) {
			t.owner = ""
		}
		due := t.run.State == journal.RunRunning
		for _, mail := range t.mail {
			due = due || !mail.consumed && mail.mail.Wake
		}
		if t.owner == "" && due {
			want = append(want, fmt.Sprint(session, m.take(id, session)))
		}
	}
	got := []string{}
	for _, c := range claims {
		got = append(got, fmt.Sprint(c.Head.Thread.Session, c.Head.Epoch))
		m.held[id+c.Head.Thread.Session] = c
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		m.Errorf("claimed %v, want %v", got, want)
	}
}

// compare looks at one thread from outside.
func (m *model) compare(session string) {
	t := m.threads[session]
	h, err := m.Head(m.ctx, thread(session))
	if t == nil {
		m.expect(err, journal.ReasonThreadNotFound)
		return
	}
	if !m.expect(err, "") {
		return
	}
	holder := t.owner
	if !m.lives(holder) {
		holder = ""
	}
	if h.Epoch != t.epoch || h.Owner.ID != holder || h.Seq != int64(len(t.events)) || h.Run != t.run || h.MailCount != len(t.open()) {
		m.Errorf("thread %s is %+v, want epoch %d, owner %q, seq %d, run %+v, mail %d", session, h, t.epoch, holder, len(t.events), t.run, len(t.open()))
	}
	if got := m.payloads(thread(session)); !slices.Equal(got, t.events) {
		m.Errorf("thread %s holds %v, want %v", session, got, t.events)
	}
	if got, want := m.mailIDs(thread(session), true), t.open(); !slices.Equal(got, want) {
		m.Errorf("mailbox of %s holds %v, want %v", session, got, want)
	}
}
