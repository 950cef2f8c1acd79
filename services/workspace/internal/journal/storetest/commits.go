package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var commitCases = []Case{
	{"commit/events come back as they were", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		b := e.batch(c, "one", "", "three\x00\xff")
		b.Events[1].Required, b.Events[1].RunID, b.Events[1].Step = false, "", 0
		out := e.commit(thread("s"), b)
		if out.Seq != 3 || !out.Time.Equal(e.clock.Now()) {
			tb.Errorf("outcome %+v, want seq 3 at %v", out, e.clock.Now())
		}
		got := e.all(thread("s"))
		for i := range b.Events {
			want := b.Events[i]
			want.Seq, want.Time, want.PayloadHash = int64(i+1), e.clock.Now(), journal.HashOf(want.Payload)
			if diff := cmp.Diff(want, got[i], cmpopts.EquateEmpty()); diff != "" {
				tb.Errorf("event %d (-want +got):\n%s", i, diff)
			}
		}
		if h := e.head(thread("s")); h.Seq != 3 {
			tb.Errorf("head at %d", h.Seq)
		}
	}},
	{"commit/a repeat gives the first answer", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		b := e.batch(c, "one")
		first := e.commit(thread("s"), b)
		e.clock.Move(time.Second)
		e.beat("r1/a")
		e.add(c, "two")
		again := e.commit(thread("s"), b)
		if again.Seq != first.Seq || !again.Time.Equal(first.Time) {
			tb.Errorf("repeat %+v, want %+v", again, first)
		}
		if got := e.payloads(thread("s")); !slices.Equal(got, []string{"one", "two"}) {
			tb.Errorf("journal %v", got)
		}
		b.Events = e.events("other")
		_, err := e.Commit(e.ctx, thread("s"), b)
		e.want(err, errdefs.ErrAborted, journal.ReasonBatchMismatch)
	}},
	{"commit/each part of the content counts for a repeat", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.post(thread("s"), wake("m"))
		b := e.batch(c, "one")
		e.commit(thread("s"), b)
		for name, change := range map[string]func(*journal.Batch){
			"consume": func(b *journal.Batch) { b.Consume = []string{"m"} },
			"run":     func(b *journal.Batch) { b.Run = run(journal.RunRunning) },
			"release": func(b *journal.Batch) { b.Release = true },
			"title":   func(b *journal.Batch) { b.Title = "t" },
			"mail":    func(b *journal.Batch) { b.Mail = []journal.Mail{wake("n")} },
			"type":    func(b *journal.Batch) { b.Events = slices.Clone(b.Events); b.Events[0].Type = "x/y" },
		} {
			other := b
			change(&other)
			_, err := e.Commit(e.ctx, thread("s"), other)
			if errdefs.ReasonOf(err) != journal.ReasonBatchMismatch {
				tb.Errorf("%s changed: %v, want BATCH_MISMATCH", name, err)
			}
		}
	}},
	{"commit/a repeat under a stale epoch is fenced, but for the release", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		a := e.begin("s")
		plain := e.batch(a, "one")
		e.commit(thread("s"), plain)
		last := e.batch(a, "two")
		last.Release = true
		out := e.commit(thread("s"), last)
		if again := e.commit(thread("s"), last); again.Seq != out.Seq {
			tb.Errorf("repeat of the release: %+v", again)
		}
		e.beat("r2/b")
		e.acquire(thread("s"), "r2/b")
		if again := e.commit(thread("s"), last); again.Seq != out.Seq {
			tb.Errorf("repeat of the release after a take-over: %+v", again)
		}
		_, err := e.Commit(e.ctx, thread("s"), plain)
		e.fenced(err)
	}},
	{"commit/the expected sequence", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "one", "two")
		b := e.batch(c, "three")
		b.Expected = 1
		_, err := e.Commit(e.ctx, thread("s"), b)
		e.want(err, errdefs.ErrAborted, journal.ReasonSequenceConflict)
		b.Expected = 2
		e.commit(thread("s"), b)
	}},
	{"commit/all or nothing", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.post(thread("s"), wake("m1"))
		e.post(thread("s"), wake("m2"))
		b := e.batch(c, "one")
		b.Consume = []string{"m1", "unknown"}
		b.Mail = []journal.Mail{wake("timer")}
		b.Run, b.Title, b.Release = run(journal.RunRunning), "title", true
		_, err := e.Commit(e.ctx, thread("s"), b)
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonMessageConsumed)
		if got := e.mailIDs(thread("s"), true); !slices.Equal(got, []string{"m1", "m2"}) {
			tb.Errorf("mailbox %v after a refused commit", got)
		}
		if h := e.head(thread("s")); h.Seq != 0 || h.Run.ID != "" || h.Title != "" || h.Owner.ID == "" || h.MailCount != 2 {
			tb.Errorf("head %+v after a refused commit", h)
		}
		b.Consume = []string{"m1"}
		e.commit(thread("s"), b)
		if got := e.mailIDs(thread("s"), true); !slices.Equal(got, []string{"m2", "timer"}) {
			tb.Errorf("mailbox %v", got)
		}
		if h := e.head(thread("s")); h.Seq != 1 || h.Run.ID != "run" || h.Title != "title" || h.Owner.ID != "" || h.MailCount != 2 {
			tb.Errorf("head %+v", h)
		}
	}},
	{"commit/runs open, park and close", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		mark := func(id string, state journal.RunState, want journal.Run) {
			tb.Helper()
			b := e.batch(c)
			b.Run = journal.Run{ID: id, State: state, TaskID: "task"}
			e.commit(thread("s"), b)
			if got := e.head(thread("s")).Run; got != want {
				tb.Errorf("after %s %d: run %+v, want %+v", id, state, got, want)
			}
		}
		r1 := journal.Run{ID: "r1", State: journal.RunRunning, TaskID: "task"}
		mark("r1", journal.RunRunning, r1)
		mark("other", journal.RunEnded, r1)
		mark("r1", journal.RunSuspended, journal.Run{ID: "r1", State: journal.RunSuspended, TaskID: "task"})
		mark("r1", journal.RunRunning, r1)
		mark("r1", journal.RunEnded, journal.Run{})
		mark("r1", journal.RunEnded, journal.Run{})
	}},
	{"commit/titles", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		title := func(set, hint, want string) {
			tb.Helper()
			b := e.batch(c, "x")
			b.Title, b.TitleHint = set, hint
			e.commit(thread("s"), b)
			if got := e.head(thread("s")).Title; got != want {
				tb.Errorf("title %q, want %q", got, want)
			}
		}
		title("", "first", "first")
		title("", "second", "first")
		title("set", "third", "set")
		title("", "", "set")
	}},
	{"commit/large payloads", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		big := strings.Repeat("x", journal.InlinePayloadBytes+1)
		edge := strings.Repeat("y", journal.InlinePayloadBytes)
		e.add(c, big, edge, "small", big)
		if got := e.payloads(thread("s")); !slices.Equal(got, []string{big, edge, "small", big}) {
			tb.Errorf("payloads of %d events came back otherwise", len(got))
		}
	}},
	{"commit/unknown thread", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a")
		_, err := e.Commit(e.ctx, thread("none"), journal.Batch{Owner: "r1/a", Epoch: 1, ID: "b", Expected: -1})
		e.missing(err)
	}},
	{"commit/many at once", func(tb testing.TB, open Factory) {
		// Sixteen threads of one owner, each with its own writer, and posts between: nothing lost, nothing doubled, every journal in order.
		e := start(tb, open)
		const threads, batches = 16, 20
		var wait sync.WaitGroup
		errs := make(chan error, 2*threads)
		for i := range threads {
			name := fmt.Sprintf("t%d", i)
			c := e.begin(name)
			wait.Go(func() {
				for n := range batches {
					b := journal.Batch{Owner: "r1/a", Epoch: c.Head.Epoch, ID: fmt.Sprint(n), Expected: int64(2 * n)}
					for k := range 2 {
						b.Events = append(b.Events, journal.Event{Schema: 1, ID: fmt.Sprint(n, k), Type: "t", Payload: fmt.Appendf(nil, "%s/%d/%d", name, n, k)})
					}
					if _, err := e.Commit(e.ctx, thread(name), b); err != nil {
						errs <- err
						return
					}
				}
			})
			wait.Go(func() {
				for n := range batches {
					if _, _, err := e.Post(e.ctx, thread(name), wake(fmt.Sprintf("m%d", n))); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wait.Wait()
		close(errs)
		for err := range errs {
			tb.Fatal(err)
		}
		for i := range threads {
			name := fmt.Sprintf("t%d", i)
			got := e.payloads(thread(name))
			if len(got) != 2*batches {
				tb.Fatalf("thread %s has %d events, want %d", name, len(got), 2*batches)
			}
			for n, p := range got {
				if want := fmt.Sprintf("%s/%d/%d", name, n/2, n%2); p != want {
					tb.Fatalf("event %d is %s, want %s", n, p, want)
				}
			}
			if n := len(e.mailIDs(thread(name), false)); n != batches {
				tb.Fatalf("thread %s has %d messages, want %d", name, n, batches)
			}
		}
	}},
}
