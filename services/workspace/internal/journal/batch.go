package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// Mail is one message of a mailbox.
type Mail struct {
	// ID is unique within the thread; made by the sender.
	ID string
	// Kind, for example "input" or "cancel".
	Kind string
	// Payload, for the orchestrator.
	Payload []byte
	// NotBefore is when it becomes due. Zero: at once.
	NotBefore time.Time
	// Posted and Order are set by the store: when it came, and its place in the mailbox.
	Posted time.Time
	Order  int64
	// Wake: the message makes an idle thread due.
	Wake bool
}

// Fingerprint covers what the sender says. Two posts of one id must have the same.
func (m Mail) Fingerprint() Sum {
	d := digest{sha256.New()}
	d.mail(m)
	return d.sum()
}

// Batch is one commit.
type Batch struct {
	// Owner and Epoch: who writes, and what Acquire gave.
	Owner string
	Epoch int64
	// ID is unique within the thread.
	ID string
	// Expected is the head's sequence before the batch. -1: not checked.
	Expected int64
	// Events in order. May be empty.
	Events []Event
	// Consume names messages of the mailbox.
	Consume []string
	// Run says what happens to the open run. State RunNone: nothing.
	Run Run
	// Release gives the thread up.
	Release bool
	// Title to set. Empty: unchanged.
	Title string
	// TitleHint is a title made from the event at index TitleFrom, for a thread without one. It goes when that event is redacted.
	TitleHint string
	TitleFrom int
	// Mail goes into the thread's own mailbox: timers.
	Mail []Mail
}

// Committed is the outcome of a commit.
type Committed struct {
	// Seq of the head after the batch.
	Seq int64
	// Time of the commit.
	Time time.Time
	// Mail that is due and not consumed, oldest first, at most [CommitMail] and [PageBytes].
	Mail []Mail
}

// Fingerprint covers the content of the batch: all but owner, epoch, the expected sequence and what is derived from the events.
func (b *Batch) Fingerprint() Sum {
	d := digest{sha256.New()}
	d.number(int64(len(b.Events)))
	for i := range b.Events {
		d.event(&b.Events[i])
	}
	d.number(int64(len(b.Consume)))
	for _, id := range b.Consume {
		d.text(id)
	}
	d.text(b.Run.ID)
	d.number(int64(b.Run.State))
	d.text(b.Run.TaskID)
	d.flag(b.Release)
	d.text(b.Title)
	d.number(int64(len(b.Mail)))
	for _, m := range b.Mail {
		d.mail(m)
	}
	return d.sum()
}

// digest hashes fields so that no two lists of fields give the same bytes: every text has its length before it.
type digest struct{ hash.Hash }

func (d digest) number(n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	d.Write(b[:])
}

func (d digest) bytes(b []byte) {
	d.number(int64(len(b)))
	d.Write(b)
}

func (d digest) text(s string) { d.bytes([]byte(s)) }

func (d digest) flag(b bool) {
	if b {
		d.number(1)
		return
	}
	d.number(0)
}

// event hashes what the writer says of an event; the payload by its hash.
func (d digest) event(e *Event) {
	d.number(int64(e.Schema))
	d.text(e.ID)
	d.text(e.Type)
	d.text(e.RunID)
	d.text(e.TurnID)
	d.number(int64(e.Step))
	d.flag(e.Required)
	d.Write(e.PayloadHash[:])
}

func (d digest) mail(m Mail) {
	d.text(m.ID)
	d.text(m.Kind)
	d.bytes(m.Payload)
	d.number(Nanos(m.NotBefore))
	d.flag(m.Wake)
}

func (d digest) sum() Sum { return Sum(d.Hash.Sum(nil)) }

// Nanos is the time as stores keep it: nanoseconds since 1970, 0 for the zero time and for every time before 1970.
func Nanos(t time.Time) int64 {
	if t.IsZero() || t.Unix() < 0 {
		return 0
	}
	if t.After(Never) {
		return Never.UnixNano()
	}
	return t.UnixNano()
}

// AtNanos undoes [Nanos].
func AtNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
