package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// fill makes a thread of n events "1", "2", …, three a commit.
func (e *env) fill(session string, n int) journal.Claim {
	e.Helper()
	c := e.begin(session)
	for i := 1; i <= n; {
		var payloads []string
		for ; len(payloads) < 3 && i <= n; i++ {
			payloads = append(payloads, fmt.Sprint(i))
		}
		e.add(c, payloads...)
	}
	return c
}

var readCases = []Case{
	{"read/pages join without gaps", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.fill("s", 600)
		for _, after := range []int64{0, 1, 299, 599, 600} {
			var got []int64
			pages := 0
			for at := after; ; pages++ {
				p, err := e.Read(e.ctx, thread("s"), journal.ReadRequest{After: at})
				e.no(err)
				for _, ev := range p.Events {
					got = append(got, ev.Seq)
				}
				if at = p.Next; at == p.Head.Seq {
					break
				}
			}
			if len(got) != int(600-after) || (len(got) > 0 && (got[0] != after+1 || got[len(got)-1] != 600)) {
				tb.Errorf("after %d: %d events", after, len(got))
			}
			if after == 0 && pages < 2 {
				tb.Errorf("600 events came in %d pages, want them bounded by %d", pages+1, journal.PageEvents)
			}
		}
	}},
	{"read/bounds and types", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		for i := range 10 {
			b := e.batch(c, fmt.Sprint(i))
			b.Events[0].Type = []string{"a/x", "b/y"}[i%2]
			e.commit(thread("s"), b)
		}
		seqs := func(r journal.ReadRequest) []int64 {
			p, err := e.Read(e.ctx, thread("s"), r)
			e.no(err)
			out := []int64{}
			for _, ev := range p.Events {
				out = append(out, ev.Seq)
			}
			return append(out, -p.Next)
		}
		for _, tt := range []struct {
			request journal.ReadRequest
			want    []int64
		}{
			{journal.ReadRequest{After: 7}, []int64{8, 9, 10, -10}},
			{journal.ReadRequest{After: 2, Through: 4}, []int64{3, 4, -4}},
			{journal.ReadRequest{Limit: 2}, []int64{1, 2, -2}},
			{journal.ReadRequest{Types: []string{"b/y"}, Limit: 2}, []int64{2, 4, -4}},
			{journal.ReadRequest{Types: []string{"b/y"}, After: 8}, []int64{10, -10}},
			{journal.ReadRequest{Types: []string{"none"}}, []int64{-10}},
			{journal.ReadRequest{After: 10}, []int64{-10}},
		} {
			if got := seqs(tt.request); !slices.Equal(got, tt.want) {
				tb.Errorf("%+v gives %v, want %v (the last is the negative of Next)", tt.request, got, tt.want)
			}
		}
		_, err := e.Read(e.ctx, thread("s"), journal.ReadRequest{After: 11})
		e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		_, err = e.Read(e.ctx, thread("none"), journal.ReadRequest{})
		e.missing(err)
		_, err = e.Head(e.ctx, thread("none"))
		e.missing(err)
	}},
	{"read/pages are bounded in bytes", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		for range 3 {
			e.add(c, string(make([]byte, journal.PageBytes/2+1)))
		}
		for at := int64(0); at < 3; at++ {
			p, err := e.Read(e.ctx, thread("s"), journal.ReadRequest{After: at})
			e.no(err)
			if len(p.Events) != 1 || p.Next != at+1 {
				tb.Errorf("after %d: %d events, next %d; want one event", at, len(p.Events), p.Next)
			}
		}
	}},
	{"read/checkpoints", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "1", "2")
		b := e.batch(c, "3")
		b.Events[0].Type = journal.TypeCheckpoint
		e.commit(thread("s"), b)
		e.add(c, "4")
		if h := e.head(thread("s")); h.CheckpointSeq != 3 {
			tb.Errorf("checkpoint at %d, want 3", h.CheckpointSeq)
		}
	}},
	{"await/returns with the commit", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		done := make(chan error, 1)
		go func() { done <- e.Await(e.ctx, thread("s"), 0) }()
		e.add(c, "x")
		select {
		case err := <-done:
			e.no(err)
		case <-time.After(patience):
			tb.Fatal("the commit was not noticed")
		}
		e.no(e.Await(e.ctx, thread("s"), 0))
		e.missing(e.Await(e.ctx, thread("none"), 0))
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		if err := e.Await(ctx, thread("s"), 1); err == nil {
			tb.Error("a cancelled wait has no error")
		}
	}},
	{"await/ends when the thread is deleted", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.begin("s")
		done := make(chan error, 1)
		go func() { done <- e.Await(e.ctx, thread("s"), 0) }()
		_, err := e.Delete(e.ctx, thread("s"))
		e.no(err)
		select {
		case err := <-done:
			e.missing(err)
		case <-time.After(patience):
			tb.Fatal("the deletion was not noticed")
		}
	}},
	{"follow/the past, then what comes", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.fill("s", 5)
		f := &follower{caught: make(chan struct{}), events: make(chan journal.Event, 16)}
		ctx, cancel := context.WithCancel(e.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := journal.Follow(ctx, e.Store, thread("s"), 2, time.Hour, f)
			done <- err
		}()
		select {
		case <-f.caught:
		case <-time.After(patience):
			tb.Fatal("never caught up")
		}
		e.add(c, "6", "7")
		for want := int64(3); want <= 7; want++ {
			select {
			case ev := <-f.events:
				if ev.Seq != want {
					tb.Fatalf("event %d, want %d", ev.Seq, want)
				}
			case <-time.After(patience):
				tb.Fatalf("event %d does not come", want)
			}
		}
		cancel()
		if err := <-done; err == nil {
			tb.Error("a cancelled follow has no error")
		}
		last, err := journal.Follow(e.ctx, e.Store, thread("s"), 6, 0, &follower{caught: make(chan struct{}), events: make(chan journal.Event, 16)})
		e.no(err)
		if last != 7 {
			tb.Errorf("a follow without waiting ends at %d", last)
		}
	}},
	{"close/ends everything", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.begin("s")
		wait, claim := make(chan error, 1), e.poll("r1/a")
		go func() { wait <- e.Await(e.ctx, thread("s"), 0) }()
		e.no(e.Close())
		e.no(e.Close())
		if err := <-wait; errdefs.ClassOf(err) != errdefs.ErrUnavailable {
			tb.Errorf("a wait ended with %v", err)
		}
		if got := <-claim; errdefs.ClassOf(got.err) != errdefs.ErrUnavailable {
			tb.Errorf("a poll ended with %v", got.err)
		}
		if _, err := e.Head(e.ctx, thread("s")); errdefs.ClassOf(err) != errdefs.ErrUnavailable {
			tb.Errorf("a read after Close: %v", err)
		}
		if _, err := e.Heartbeat(e.ctx, owner("r1/a"), false); errdefs.ClassOf(err) != errdefs.ErrUnavailable {
			tb.Errorf("a change after Close: %v", err)
		}
	}},
}

type follower struct {
	caught chan struct{}
	events chan journal.Event
}

func (f *follower) Event(e journal.Event) error { f.events <- e; return nil }
func (f *follower) CaughtUp(journal.Head) error { close(f.caught); return nil }
