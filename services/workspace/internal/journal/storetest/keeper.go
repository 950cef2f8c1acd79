package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func (e *env) fork(from identity.Thread, at int64, to string) journal.Head {
	e.Helper()
	h, err := e.Fork(e.ctx, from, at, to)
	e.no(err)
	return h
}

func (e *env) delete(t identity.Thread) {
	e.Helper()
	existed, err := e.Delete(e.ctx, t)
	e.no(err)
	if !existed {
		e.Fatalf("there was no %s to delete", t.Session)
	}
}

func (e *env) redact(t identity.Thread, seqs ...int64) journal.Redacted {
	e.Helper()
	out, err := e.Redact(e.ctx, t, seqs, "asked by the user")
	e.no(err)
	return out
}

// content compares a thread's payloads with words.
func (e *env) content(session, want string) {
	e.Helper()
	if got := strings.Join(e.payloads(thread(session)), " "); got != want {
		e.Errorf("thread %s holds %q, want %q", session, got, want)
	}
}

// checkpoint commits a checkpoint.
func (e *env) checkpoint(c journal.Claim, payload string) {
	e.Helper()
	b := e.batch(c, payload)
	b.Events[0].Type = journal.TypeCheckpoint
	e.commit(c.Head.Thread, b)
}

// blob reports whether the tenant has a blob.
func (e *env) blob(data string) bool {
	e.Helper()
	got, err := e.GetBlob(e.ctx, "acme", journal.HashOf([]byte(data)))
	if errdefs.ReasonOf(err) == journal.ReasonBlobNotFound {
		return false
	}
	e.no(err)
	return string(got) == data
}

// addNaming commits an event that names a blob, which it puts.
func (e *env) addNaming(c journal.Claim, payload, blob string) {
	e.Helper()
	sum, err := e.PutBlob(e.ctx, "acme", []byte(blob))
	e.no(err)
	b := e.batch(c, payload)
	b.Events[0].Blobs = []journal.BlobRef{{SHA256: sum}}
	e.commit(c.Head.Thread, b)
}

var keeperCases = []Case{
	{"fork/shares the past and goes its own way", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "1", "2")
		e.openRun(c, run(journal.RunRunning), false)
		e.post(thread("s"), wake("m"))
		h := e.fork(thread("s"), 2, "f")
		if from := thread("s"); h.Seq != 2 || *h.ForkedFrom != from || h.ForkedAt != 2 || h.Run.ID != "" || h.MailCount != 0 || h.Owner.ID != "" {
			tb.Errorf("head of the fork %+v", h)
		}
		f := e.begin("f")
		e.add(f, "f3")
		e.add(c, "4")
		e.content("s", "1 2 x 4")
		e.content("f", "1 2 f3")
		e.length(e.fork(thread("f"), 0, "ff"), 3)
		e.add(e.begin("ff"), "ff4")
		e.content("ff", "1 2 f3 ff4")
		e.length(e.fork(thread("ff"), 2, "early"), 2)
		e.content("early", "1 2")
		p, err := e.Read(e.ctx, thread("ff"), journal.ReadRequest{After: 1})
		e.no(err)
		if len(p.Events) != 3 || string(p.Events[0].Payload) != "2" {
			tb.Errorf("reading a fork from the middle of what it shares gives %d events", len(p.Events))
		}
	}},
	{"fork/only after whole batches", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		_, err := e.Fork(e.ctx, thread("s"), 0, "empty")
		e.no(err)
		e.add(c, "1", "2")
		e.add(c, "3", "4", "5")
		_, err = e.Fork(e.ctx, thread("s"), 4, "f")
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonNoForkPoint)
		if !strings.Contains(fmt.Sprint(err), "2") {
			tb.Errorf("%v does not name the nearest place", err)
		}
		_, err = e.Fork(e.ctx, thread("s"), 1, "f")
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonNoForkPoint)
		_, err = e.Fork(e.ctx, thread("s"), 6, "f")
		e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		_, err = e.Fork(e.ctx, thread("none"), 0, "f")
		e.missing(err)
		e.fork(thread("s"), 5, "f")
		_, err = e.Fork(e.ctx, thread("s"), 2, "f")
		e.want(err, errdefs.ErrAlreadyExists, journal.ReasonThreadExists)
		_, err = e.Fork(e.ctx, thread("s"), 0, "s")
		e.want(err, errdefs.ErrAlreadyExists, journal.ReasonThreadExists)
	}},
	{"fork/checkpoints and titles of what it shares", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "1")
		e.checkpoint(c, "2")
		e.checkpoint(c, "3")
		b := e.batch(c, "4")
		b.TitleHint = "from 4"
		e.commit(thread("s"), b)
		for at, want := range map[int64]int64{1: 0, 2: 2, 3: 3, 4: 3} {
			h := e.fork(thread("s"), at, fmt.Sprint("f", at))
			if h.CheckpointSeq != want || (h.Title == "from 4") != (at == 4) {
				tb.Errorf("forked at %d: checkpoint %d, title %q", at, h.CheckpointSeq, h.Title)
			}
		}
	}},
	{"fork/not without end", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.add(e.begin("0"), "0")
		var err error
		for i := 0; err == nil && i < 2*journal.MaxForkDepth; i++ {
			to := fmt.Sprint(i + 1)
			if _, err = e.Fork(e.ctx, thread(fmt.Sprint(i)), 0, to); err == nil {
				e.add(e.begin(to), to)
			}
		}
		e.want(err, errdefs.ErrResourceExhausted, journal.ReasonTooLarge)
		if got := e.payloads(thread(fmt.Sprint(journal.MaxForkDepth))); len(got) != journal.MaxForkDepth+1 {
			tb.Errorf("the last fork has %d events", len(got))
		}
	}},
	{"redact/tombstones, forks included", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "1")
		e.add(c, "secret")
		e.fork(thread("s"), 2, "f")
		f := e.begin("f")
		e.add(f, "f3")
		e.fork(thread("s"), 1, "before")
		e.add(e.begin("before"), "b2")
		e.add(c, "3")
		_, cursor := e.changes("", 9)
		if got := e.redact(thread("f"), 2); got.Events != 1 {
			tb.Errorf("removed %+v, want one event", got)
		}
		e.content("s", "1 † 3")
		e.content("f", "1 † f3")
		e.content("before", "1 b2")
		got := e.all(thread("s"))[1]
		if got.PayloadHash != journal.HashOf([]byte("secret")) || got.Reason != "asked by the user" || got.Payload != nil || got.Type != "message/appended" {
			tb.Errorf("tombstone %+v", got)
		}
		if got, _ := e.changes(cursor, 9); !slices.Contains(got, "s") || !slices.Contains(got, "f") || slices.Contains(got, "before") {
			tb.Errorf("changed: %v, want s and f", got)
		}
		if got := e.redact(thread("s"), 2); got.Events != 0 {
			tb.Errorf("a second time removed %+v", got)
		}
		e.add(c, "goes on")
		for _, seq := range []int64{0, 5, -1} {
			_, err := e.Redact(e.ctx, thread("s"), []int64{1, seq}, "")
			e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		}
		e.content("s", "1 † 3 goes on")
		_, err := e.Redact(e.ctx, thread("none"), []int64{1}, "")
		e.missing(err)
	}},
	{"redact/what repeats the payload goes too", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.checkpoint(c, "old-checkpoint")
		b := e.batch(c, "secret")
		b.TitleHint = "secret"
		e.commit(thread("s"), b)
		e.checkpoint(c, "checkpoint-with-secret")
		e.fork(thread("s"), 0, "f")
		f := e.begin("f")
		e.checkpoint(f, "another-with-secret")
		e.add(f, "end")
		e.add(c, "end")
		if got := e.redact(thread("s"), 2); got.Events != 3 {
			tb.Errorf("removed %+v, want the event and two checkpoints", got)
		}
		e.content("s", "old-checkpoint † † end")
		e.content("f", "old-checkpoint † † † end")
		for _, s := range []string{"s", "f"} {
			if h := e.head(thread(s)); h.CheckpointSeq != 1 || h.Title != "" {
				tb.Errorf("thread %s: checkpoint %d, title %q; want 1 and none", s, h.CheckpointSeq, h.Title)
			}
		}
	}},
	{"redact/a checkpoint of who read the payload before", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.checkpoint(c, "old-checkpoint")
		e.add(c, "secret", "3")
		e.fork(thread("s"), 0, "f")
		f := e.begin("f")
		e.redact(thread("s"), 2)
		sum, err := e.PutBlob(e.ctx, "acme", []byte("blob-with-secret"))
		e.no(err)
		b := e.batch(c, "4", "checkpoint-with-secret", "6")
		b.Events[1].Type, b.Events[1].Blobs = journal.TypeCheckpoint, []journal.BlobRef{{SHA256: sum}}
		e.commit(thread("s"), b)
		e.checkpoint(c, "another-with-secret")
		e.checkpoint(f, "forked-with-secret")
		e.content("s", "old-checkpoint † 3 4 † 6 †")
		e.content("f", "old-checkpoint † 3 †")
		if h := e.head(thread("s")); h.CheckpointSeq != 1 || e.blob("blob-with-secret") {
			tb.Errorf("checkpoint %d, want 1; the blob is there: %v", h.CheckpointSeq, e.blob("blob-with-secret"))
		}
		if got := e.all(thread("s"))[6]; got.Reason != journal.ReasonStaleCheckpoint || got.PayloadHash != journal.HashOf([]byte("another-with-secret")) {
			tb.Errorf("tombstone %+v", got)
		}
		e.no(e.Release(e.ctx, thread("s"), c.Head.Owner.ID, c.Head.Epoch))
		e.beat("r2/1")
		e.checkpoint(e.acquire(thread("s"), "r2/1"), "without")
		if h := e.head(thread("s")); h.CheckpointSeq != 8 {
			tb.Errorf("checkpoint %d of an owner that read the thread after, want 8", h.CheckpointSeq)
		}
	}},
	{"redact/blobs that nothing else names", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c, other := e.begin("s"), e.begin("other")
		big := strings.Repeat("b", journal.InlinePayloadBytes+1)
		e.addNaming(c, "1", "only here")
		e.addNaming(c, "2", "also there")
		e.addNaming(other, "1", "also there")
		e.add(c, big)
		if got := e.redact(thread("s"), 1, 2, 3); got.Events != 3 || got.Blobs != 2 {
			tb.Errorf("removed %+v, want 3 events and 2 blobs", got)
		}
		if e.blob("only here") || !e.blob("also there") || e.blob(big) {
			tb.Errorf("blobs: only here %v, also there %v, big %v", e.blob("only here"), e.blob("also there"), e.blob(big))
		}
		e.content("s", "† † †")
	}},
	{"delete/leaves nothing", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.fill("s", 50)
		e.addNaming(c, "x", "image")
		e.post(thread("s"), wake("m"))
		b := e.batch(c, "batch")
		e.commit(thread("s"), b)
		e.delete(thread("s"))
		_, err := e.Head(e.ctx, thread("s"))
		e.missing(err)
		if e.blob("image") {
			tb.Error("the blob is left")
		}
		_, err = e.Commit(e.ctx, thread("s"), e.batch(c, "late"))
		e.fenced(err)
		if existed, err := e.Delete(e.ctx, thread("s")); err != nil || existed {
			tb.Errorf("deleted again: %v, %v", existed, err)
		}
		if got := e.list(ana, 9); len(got) != 0 {
			tb.Errorf("listed: %v", got)
		}
		// Made anew under the same key it is empty, and the owner of before is still fenced.
		again := e.begin("s")
		if again.Head.Epoch <= c.Head.Epoch || again.Head.Seq != 0 || again.Head.MailCount != 0 {
			tb.Errorf("made anew: %+v", again.Head)
		}
		_, err = e.Commit(e.ctx, thread("s"), e.batch(c, "late"))
		e.fenced(err)
		b.Epoch = again.Head.Epoch
		if out := e.commit(thread("s"), b); out.Seq != 1 {
			tb.Errorf("the batch id of before is still known: %+v", out)
		}
		if _, duplicate, err := e.Post(e.ctx, thread("s"), wake("m")); err != nil || duplicate {
			tb.Errorf("the message of before is still known: %v, %v", duplicate, err)
		}
	}},
	{"delete/forks keep what they share", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.addNaming(c, "1", "shared")
		e.fork(thread("s"), 1, "f")
		e.addNaming(c, "2", "mine")
		e.fork(thread("f"), 1, "g")
		e.add(e.begin("f"), "f2")
		e.fork(thread("f"), 2, "ff")
		e.delete(thread("s"))
		e.content("f", "1 f2")
		if !e.blob("shared") || e.blob("mine") {
			tb.Errorf("blobs: shared %v, mine %v", e.blob("shared"), e.blob("mine"))
		}
		if from := e.head(thread("f")).ForkedFrom; from == nil || *from != thread("s") {
			tb.Errorf("the fork forgot where it comes from: %v", from)
		}
		e.delete(thread("f"))
		e.content("ff", "1 f2")
		e.content("g", "1")
		e.fork(thread("g"), 1, "h")
		e.delete(thread("g"))
		e.delete(thread("ff"))
		e.content("h", "1")
		e.delete(thread("h"))
		if e.blob("shared") {
			tb.Error("the blob is left when all threads are gone")
		}
	}},
	{"delete/long journals", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		for range 15 {
			e.add(c, slices.Repeat([]string{"x"}, 200)...)
		}
		e.fork(thread("s"), 1000, "f")
		e.delete(thread("s"))
		if n := len(e.payloads(thread("f"))); n != 1000 {
			tb.Errorf("the fork has %d events", n)
		}
		e.delete(thread("f"))
	}},
}

// length checks the length of a fork.
func (e *env) length(h journal.Head, seq int64) {
	e.Helper()
	if h.Seq != seq {
		e.Errorf("thread %s is at %d, want %d", h.Thread.Session, h.Seq, seq)
	}
}
