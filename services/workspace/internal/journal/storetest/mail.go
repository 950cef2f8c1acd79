package storetest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var mailCases = []Case{
	{"mail/post needs no thread and no lease", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		h := e.post(thread("s"), wake("m1"))
		if h.MailCount != 1 || h.Seq != 0 || h.Epoch != 0 {
			tb.Errorf("head %+v", h)
		}
		e.begin("s")
		later := journal.Mail{ID: "m2", Kind: "expiry", Payload: []byte("p"), NotBefore: e.clock.Now().Add(time.Minute)}
		if h := e.post(thread("s"), later); h.Owner.ID != "r1/a" || h.MailCount != 2 {
			tb.Errorf("head %+v, want the live owner and 2 messages", h)
		}
		got, err := e.ListMail(e.ctx, thread("s"), 10, true)
		e.no(err)
		want := []journal.Mail{wake("m1"), later}
		for i := range want {
			want[i].Posted, want[i].Order = e.clock.Now(), int64(i+1)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			tb.Errorf("mailbox (-want +got):\n%s", diff)
		}
		if got := e.mailIDs(thread("s"), false); !slices.Equal(got, []string{"m1"}) {
			tb.Errorf("due mail %v", got)
		}
		e.clock.Move(time.Minute)
		if got := e.mailIDs(thread("s"), false); !slices.Equal(got, []string{"m1", "m2"}) {
			tb.Errorf("due mail a minute later %v", got)
		}
		_, err = e.ListMail(e.ctx, thread("none"), 10, true)
		e.missing(err)
	}},
	{"mail/a repeat is the same message, also when it was consumed", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.post(thread("s"), wake("m"))
		repeat := func() {
			tb.Helper()
			_, duplicate, err := e.Post(e.ctx, thread("s"), wake("m"))
			e.no(err)
			if !duplicate {
				tb.Error("a repeat is not called a duplicate")
			}
		}
		repeat()
		b := e.batch(c, "took m")
		b.Consume = []string{"m"}
		e.commit(thread("s"), b)
		repeat()
		if got := e.mailIDs(thread("s"), true); len(got) != 0 {
			tb.Errorf("mailbox %v, want empty", got)
		}
		for name, m := range map[string]journal.Mail{
			"payload":    {ID: "m", Kind: "input", Payload: []byte("other"), Wake: true},
			"kind":       {ID: "m", Kind: "steer", Payload: wake("m").Payload, Wake: true},
			"wake":       {ID: "m", Kind: "input", Payload: wake("m").Payload},
			"not before": {ID: "m", Kind: "input", Payload: wake("m").Payload, Wake: true, NotBefore: e.clock.Now()},
		} {
			if _, _, err := e.Post(e.ctx, thread("s"), m); errdefs.ReasonOf(err) != journal.ReasonMessageMismatch {
				tb.Errorf("another %s: %v, want MESSAGE_MISMATCH", name, err)
			}
		}
	}},
	{"mail/consumed once", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.post(thread("s"), wake("m1"))
		e.post(thread("s"), wake("m2"))
		b := e.batch(c, "one")
		b.Consume = []string{"m1"}
		if out := e.commit(thread("s"), b); !slices.Equal(idsOf(out.Mail), []string{"m2"}) {
			tb.Errorf("the commit tells of %v, want m2", idsOf(out.Mail))
		}
		second := e.batch(c, "two")
		second.Consume = []string{"m1"}
		_, err := e.Commit(e.ctx, thread("s"), second)
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonMessageConsumed)
		if got := e.payloads(thread("s")); !slices.Equal(got, []string{"one"}) {
			tb.Errorf("journal %v", got)
		}
		if out := e.commit(thread("s"), b); !slices.Equal(idsOf(out.Mail), []string{"m2"}) {
			tb.Errorf("the repeat tells of %v, want m2", idsOf(out.Mail))
		}
	}},
	{"mail/the first answer wins", func(tb testing.TB, open Factory) {
		// An approval's answer and its expiry are two messages; the commit that takes one consumes both.
		e := start(tb, open)
		c := e.begin("s")
		b := e.batch(c, "asked")
		b.Mail = []journal.Mail{{ID: "expiry", Kind: "expiry", NotBefore: e.clock.Now().Add(time.Hour), Wake: true}}
		if out := e.commit(thread("s"), b); len(out.Mail) != 0 {
			tb.Errorf("a timer is told as due: %v", idsOf(out.Mail))
		}
		e.post(thread("s"), journal.Mail{ID: "answer", Kind: "answer", Wake: true})
		b = e.batch(c, "answered")
		b.Consume = []string{"answer", "expiry"}
		if out := e.commit(thread("s"), b); len(out.Mail) != 0 {
			tb.Errorf("mail %v is left", idsOf(out.Mail))
		}
		e.clock.Move(2 * time.Hour)
		if got := e.mailIDs(thread("s"), true); len(got) != 0 {
			tb.Errorf("mailbox %v", got)
		}
	}},
	{"mail/timers are idempotent too", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.post(thread("s"), wake("m"))
		b := e.batch(c)
		b.Mail = []journal.Mail{wake("m")}
		e.commit(thread("s"), b)
		if got := e.head(thread("s")).MailCount; got != 1 {
			tb.Errorf("%d messages, want 1", got)
		}
		b = e.batch(c, "x")
		b.Mail = []journal.Mail{{ID: "m", Kind: "input"}}
		_, err := e.Commit(e.ctx, thread("s"), b)
		e.want(err, errdefs.ErrAborted, journal.ReasonMessageMismatch)
		if h := e.head(thread("s")); h.Seq != 0 {
			tb.Errorf("head at %d", h.Seq)
		}
	}},
	{"mail/a full mailbox of inputs still takes a cancel", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for i := range journal.MaxMail - journal.ControlMail {
			e.post(thread("s"), wake(strconv.Itoa(i)))
		}
		_, _, err := e.Post(e.ctx, thread("s"), wake("more"))
		e.want(err, errdefs.ErrResourceExhausted, journal.ReasonTooLarge)
		for i := range journal.ControlMail {
			e.post(thread("s"), journal.Mail{ID: "c" + strconv.Itoa(i), Kind: "cancel"})
		}
		_, _, err = e.Post(e.ctx, thread("s"), journal.Mail{ID: "too much", Kind: "cancel"})
		e.want(err, errdefs.ErrResourceExhausted, journal.ReasonTooLarge)
		c := e.begin("s")
		b := e.batch(c)
		b.Consume = []string{"0"}
		if out := e.commit(thread("s"), b); len(out.Mail) != journal.CommitMail || out.Mail[0].ID != "1" {
			tb.Errorf("the commit tells of %d messages", len(out.Mail))
		}
		if got, err := e.ListMail(e.ctx, thread("s"), 3, true); err != nil || !slices.Equal(idsOf(got), []string{"1", "2", "3"}) {
			tb.Errorf("the first three: %v, %v", idsOf(got), err)
		}
	}},
	{"mail/answers are bounded in bytes", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for i := range 40 {
			e.post(thread("s"), journal.Mail{ID: strconv.Itoa(i), Kind: "input", Payload: make([]byte, journal.MaxMailBytes)})
		}
		got, err := e.ListMail(e.ctx, thread("s"), journal.MaxListMail, true)
		e.no(err)
		if want := journal.PageBytes / journal.MaxMailBytes; len(got) != want {
			tb.Errorf("%d messages of 64 KiB, want %d", len(got), want)
		}
	}},
}
