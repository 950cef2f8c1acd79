package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var ownerCases = []Case{
	{"owners/acquire makes the thread and raises the epoch", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		want := journal.Head{Thread: thread("s"), Epoch: 1, Owner: owner("r1/a"), Created: e.clock.Now(), Updated: e.clock.Now()}
		if diff := cmp.Diff(want, c.Head); diff != "" {
			tb.Errorf("head (-want +got):\n%s", diff)
		}
		if again := e.acquire(thread("s"), "r1/a"); again.Head.Epoch != 1 || again.Previous.ID != "" {
			tb.Errorf("the holder acquired again: epoch %d, previous %+v; want epoch 1, none", again.Head.Epoch, again.Previous)
		}
		e.no(e.Release(e.ctx, thread("s"), "r1/a", 1))
		if again := e.acquire(thread("s"), "r1/a"); again.Head.Epoch != 2 || again.Previous.ID != "" {
			tb.Errorf("acquired after a release: epoch %d, previous %+v; want epoch 2, none", again.Head.Epoch, again.Previous)
		}
	}},
	{"owners/one at a time while it lives", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.begin("s")
		e.beat("r2/b")
		_, err := e.Acquire(e.ctx, thread("s"), owner("r2/b"), false)
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonOwned)
		e.clock.Move(journal.OwnerLife - 1)
		e.beat("r2/b")
		_, err = e.Acquire(e.ctx, thread("s"), owner("r2/b"), false)
		e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonOwned)
		e.clock.Move(1)
		c := e.acquire(thread("s"), "r2/b")
		if c.Head.Epoch != 2 || c.Previous != owner("r1/a") {
			tb.Errorf("took over: epoch %d, previous %+v; want 2, %+v", c.Head.Epoch, c.Previous, owner("r1/a"))
		}
	}},
	{"owners/fence takes from a live owner", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		old := e.begin("s")
		e.beat("r2/b")
		c, err := e.Acquire(e.ctx, thread("s"), owner("r2/b"), true)
		e.no(err)
		if c.Head.Epoch != 2 || c.Previous != owner("r1/a") || c.Head.Owner != owner("r2/b") {
			tb.Errorf("fenced: %+v", c)
		}
		_, err = e.Commit(e.ctx, thread("s"), e.batch(old, "late"))
		e.fenced(err)
	}},
	{"owners/one heartbeat keeps every thread", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for _, s := range []string{"a", "b", "c"} {
			e.begin(s)
		}
		for range 5 {
			e.clock.Move(journal.OwnerLife - time.Millisecond)
			e.beat("r1/a")
		}
		for _, s := range []string{"a", "b", "c"} {
			if h := e.head(thread(s)); h.Owner.ID != "r1/a" {
				tb.Errorf("thread %s has the owner %+v", s, h.Owner)
			}
		}
		e.clock.Move(journal.OwnerLife)
		if h := e.head(thread("a")); h.Owner.ID != "" {
			tb.Errorf("an expired owner is shown: %+v", h.Owner)
		}
	}},
	{"owners/no owner rises from the dead", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.clock.Move(journal.OwnerLife)
		for range 2 {
			_, err := e.Heartbeat(e.ctx, owner("r1/a"), false)
			e.expired(err)
		}
		_, err := e.Acquire(e.ctx, thread("other"), owner("r1/a"), false)
		e.expired(err)
		_, err = e.Commit(e.ctx, thread("s"), e.batch(c, "x"))
		e.expired(err)
		_, err = e.ClaimExpired(e.ctx, journal.ClaimRequest{Owner: owner("r1/a"), Max: 1, MaxSchema: 1})
		e.expired(err)
		_, err = e.Acquire(e.ctx, thread("s"), owner("never/was"), false)
		e.expired(err)
	}},
	{"owners/time alone fences nobody", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.clock.Move(10 * journal.OwnerLife)
		e.add(c, "late, but nobody took over")
	}},
	{"owners/leaving gives everything up", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		_, err := e.Heartbeat(e.ctx, owner("r1/a"), true)
		e.no(err)
		_, err = e.Heartbeat(e.ctx, owner("r1/a"), true)
		e.no(err)
		_, err = e.Commit(e.ctx, thread("s"), e.batch(c, "x"))
		e.expired(err)
		e.beat("r2/b")
		e.acquire(thread("s"), "r2/b")
		_, err = e.Heartbeat(e.ctx, owner("r1/a"), false)
		e.expired(err)
	}},
	{"owners/release only by the holder", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.no(e.Release(e.ctx, thread("s"), "r2/b", c.Head.Epoch))
		e.no(e.Release(e.ctx, thread("s"), "r1/a", c.Head.Epoch-1))
		e.no(e.Release(e.ctx, thread("none"), "r1/a", 1))
		if h := e.head(thread("s")); h.Owner.ID != "r1/a" {
			tb.Fatalf("released by a stranger: %+v", h)
		}
		e.no(e.Release(e.ctx, thread("s"), "r1/a", c.Head.Epoch))
		e.no(e.Release(e.ctx, thread("s"), "r1/a", c.Head.Epoch))
		_, err := e.Commit(e.ctx, thread("s"), e.batch(c, "x"))
		e.fenced(err)
		if h := e.head(thread("s")); h.Owner.ID != "" || h.Seq != 0 {
			tb.Errorf("after the release: %+v", h)
		}
	}},
	{"owners/the address is the last one", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.begin("s")
		_, err := e.Heartbeat(e.ctx, journal.Owner{ID: "r1/a", Address: "new:1"}, false)
		e.no(err)
		if h := e.head(thread("s")); h.Owner.Address != "new:1" {
			tb.Errorf("address %q", h.Owner.Address)
		}
	}},
	{"owners/two who both think they own", func(tb testing.TB, open Factory) {
		// Every interleaving of three commits of A and three of B, with B's take-over at every point: whatever A still believes, nothing of A is
		// in the journal after B's first epoch.
		for at := range 4 {
			e := start(tb, open)
			s := thread("s")
			a := e.begin("s")
			want := []string{}
			for i := range 3 {
				if i == at {
					e.beat("r2/b")
					e.clock.Move(journal.OwnerLife - 1)
					e.beat("r2/b")
					e.clock.Move(1)
					b := e.acquire(s, "r2/b")
					e.add(b, "b")
					want = append(want, "b")
				}
				name := "a" + string(rune('0'+i))
				_, err := e.Commit(e.ctx, s, e.batch(a, name))
				if i >= at {
					e.fenced(err)
					continue
				}
				e.no(err)
				want = append(want, name)
			}
			if got := e.payloads(s); !slices.Equal(got, want) {
				tb.Errorf("take-over at %d: journal %v, want %v", at, got, want)
			}
		}
	}},
}
