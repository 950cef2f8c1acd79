package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// openRun commits a mark.
func (e *env) openRun(c journal.Claim, r journal.Run, release bool) {
	e.Helper()
	b := e.batch(c, "x")
	b.Run, b.Release = r, release
	e.commit(c.Head.Thread, b)
}

var claimCases = []Case{
	{"claim/what is due", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r2/b")
		for name, prepare := range map[string]func(journal.Claim){
			"idle":      func(c journal.Claim) { e.openRun(c, journal.Run{}, true) },
			"running":   func(c journal.Claim) { e.openRun(c, run(journal.RunRunning), true) },
			"suspended": func(c journal.Claim) { e.openRun(c, run(journal.RunSuspended), true) },
			"ended": func(c journal.Claim) {
				e.openRun(c, run(journal.RunRunning), false)
				e.openRun(c, run(journal.RunEnded), true)
			},
			"task": func(c journal.Claim) {
				e.openRun(c, journal.Run{ID: "r", State: journal.RunRunning, TaskID: "t"}, true)
			},
			"owned":               func(c journal.Claim) { e.openRun(c, run(journal.RunRunning), false) },
			"mail":                func(c journal.Claim) { e.openRun(c, journal.Run{}, true); e.post(c.Head.Thread, wake("m")) },
			"suspended with mail": func(c journal.Claim) { e.openRun(c, run(journal.RunSuspended), true); e.post(c.Head.Thread, wake("m")) },
			"quiet mail": func(c journal.Claim) {
				e.openRun(c, journal.Run{}, true)
				e.post(c.Head.Thread, journal.Mail{ID: "m", Kind: "k"})
			},
			"later mail": func(c journal.Claim) {
				e.openRun(c, journal.Run{}, true)
				e.post(c.Head.Thread, journal.Mail{ID: "m", Kind: "k", Wake: true, NotBefore: e.clock.Now().Add(time.Second)})
			},
			"task with mail": func(c journal.Claim) {
				e.openRun(c, journal.Run{ID: "r", State: journal.RunSuspended, TaskID: "t"}, true)
				e.post(c.Head.Thread, wake("m"))
			},
			"mail consumed": func(c journal.Claim) {
				e.post(c.Head.Thread, wake("m"))
				b := e.batch(c, "x")
				b.Consume, b.Release = []string{"m"}, true
				e.commit(c.Head.Thread, b)
			},
			"mail before the release": func(c journal.Claim) { e.post(c.Head.Thread, wake("m")); e.openRun(c, journal.Run{}, true) },
		} {
			prepare(e.begin(name))
		}
		e.post(thread("never acquired"), wake("m"))
		due := func(want ...string) {
			tb.Helper()
			got := sessionsOf(e.claim("r2/b", journal.MaxClaims))
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				tb.Errorf("claimed %q, want %q", got, want)
			}
		}
		due("running", "mail", "suspended with mail", "mail before the release", "never acquired")
		due()
		e.clock.Move(time.Second)
		e.beat("r1/a", "r2/b")
		due("later mail")
		e.clock.Move(journal.OwnerLife - 1)
		e.beat("r2/b")
		due()
		e.clock.Move(1)
		due("owned")
	}},
	{"claim/the claim is an acquisition", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		old := e.begin("s")
		e.openRun(old, run(journal.RunRunning), false)
		e.clock.Move(journal.OwnerLife)
		e.beat("r2/b")
		got := e.claim("r2/b", 1)
		if len(got) != 1 || got[0].Head.Epoch != 2 || got[0].Head.Owner != owner("r2/b") || got[0].Previous != owner("r1/a") || got[0].Head.Run.ID != "run" {
			tb.Fatalf("claims %+v", got)
		}
		_, err := e.Commit(e.ctx, thread("s"), e.batch(old, "late"))
		if err == nil {
			tb.Error("the owner before may still commit")
		}
		e.add(got[0], "goes on")
	}},
	{"claim/a task's worker learns who had the thread", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.openRun(e.begin("s"), journal.Run{ID: "r", State: journal.RunRunning, TaskID: "t"}, false)
		e.clock.Move(journal.OwnerLife)
		e.beat("r2/b")
		if got := e.claim("r2/b", 8); len(got) != 0 {
			tb.Fatalf("claimed %q", sessionsOf(got))
		}
		if c := e.acquire(thread("s"), "r2/b"); c.Previous != owner("r1/a") {
			tb.Errorf("previous %+v", c.Previous)
		}
	}},
	{"claim/newer schemas are left alone", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for name, required := range map[string]bool{"required": true, "optional": false} {
			b := e.batch(e.begin(name), "x")
			b.Events[0].Schema, b.Events[0].Required = 2, required
			b.Run, b.Release = run(journal.RunRunning), true
			e.commit(thread(name), b)
		}
		if got := sessionsOf(e.claim("r1/a", 8)); !slices.Equal(got, []string{"optional"}) {
			tb.Errorf("claimed %q with schema 1", got)
		}
		got, err := e.ClaimExpired(e.ctx, journal.ClaimRequest{Owner: owner("r1/a"), Max: 8, MaxSchema: 2})
		e.no(err)
		if got := sessionsOf(got); !slices.Equal(got, []string{"required"}) {
			tb.Errorf("claimed %q with schema 2", got)
		}
	}},
	{"claim/tenants take turns", func(tb testing.TB, open Factory) {
		// One tenant has a hundred threads, and had them first; two have three each. While all have work, each gets every third claim.
		e := start(tb, open)
		for i := range 100 {
			e.post(identity.Thread{Tenant: "big", Agent: "a", User: "u", Session: fmt.Sprint(i)}, wake("m"))
		}
		e.clock.Move(time.Millisecond)
		for i := range 3 {
			e.post(identity.Thread{Tenant: "ada", Agent: "a", User: "u", Session: fmt.Sprint(i)}, wake("m"))
			e.post(identity.Thread{Tenant: "zoe", Agent: "a", User: "u", Session: fmt.Sprint(i)}, wake("m"))
		}
		e.beat("r1/a")
		count := make(map[string]int)
		for range 9 {
			for _, c := range e.claim("r1/a", 1) {
				count[c.Head.Thread.Tenant]++
			}
		}
		if count["ada"] != 3 || count["zoe"] != 3 || count["big"] != 3 {
			tb.Errorf("nine claims went to %v, want three each", count)
		}
		if got := len(e.claim("r1/a", 64)); got != 64 {
			tb.Errorf("one claim of 64 got %d of the 97 that are left", got)
		}
		if got := len(e.claim("r1/a", 64)); got != 33 {
			tb.Errorf("the last claim got %d, want 33", got)
		}
	}},
	{"claim/a post wakes the poll", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a")
		got := e.poll("r1/a")
		e.post(thread("s"), wake("m"))
		if claims := e.result(got); !slices.Equal(sessionsOf(claims), []string{"s"}) {
			tb.Errorf("claimed %q", sessionsOf(claims))
		}
	}},
	{"claim/a release wakes the poll", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.openRun(c, run(journal.RunRunning), false)
		e.beat("r2/b")
		got := e.poll("r2/b")
		e.no(e.Release(e.ctx, thread("s"), "r1/a", c.Head.Epoch))
		if claims := e.result(got); !slices.Equal(sessionsOf(claims), []string{"s"}) {
			tb.Errorf("claimed %q", sessionsOf(claims))
		}
	}},
	{"claim/an owner that leaves wakes the poll", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.openRun(e.begin("s"), run(journal.RunRunning), false)
		e.beat("r2/b")
		got := e.poll("r2/b")
		_, err := e.Heartbeat(e.ctx, owner("r1/a"), true)
		e.no(err)
		if claims := e.result(got); !slices.Equal(sessionsOf(claims), []string{"s"}) {
			tb.Errorf("claimed %q", sessionsOf(claims))
		}
	}},
	{"claim/every poll gets its share", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a", "r2/b", "r3/c")
		polls := []<-chan answer{e.poll("r1/a"), e.poll("r2/b"), e.poll("r3/c")}
		for _, s := range []string{"x", "y", "z"} {
			e.post(thread(s), wake("m"))
		}
		var got []string
		for _, p := range polls {
			got = append(got, sessionsOf(e.result(p))...)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"x", "y", "z"}) {
			tb.Errorf("claimed %q", got)
		}
	}},
	{"claim/old callers do not keep new ones from newer schemas", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a", "r2/b")
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		old := make(chan struct{})
		go func() {
			defer close(old)
			_, _ = e.ClaimExpired(ctx, journal.ClaimRequest{Owner: owner("r1/a"), Max: 1, MaxSchema: 1, MaxWait: journal.MaxClaimWait})
		}()
		got := make(chan answer, 1)
		go func() {
			claims, err := e.ClaimExpired(ctx, journal.ClaimRequest{Owner: owner("r2/b"), Max: 1, MaxSchema: 2, MaxWait: journal.MaxClaimWait})
			got <- answer{claims, err}
		}()
		b := e.batch(e.begin("s"), "x")
		b.Events[0].Schema, b.Run, b.Release = 2, run(journal.RunRunning), true
		e.commit(thread("s"), b)
		if claims := e.result(got); len(claims) != 1 {
			tb.Errorf("claimed %q", sessionsOf(claims))
		}
		cancel()
		<-old
	}},
	{"claim/a cancelled poll ends", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a")
		ctx, cancel := context.WithCancel(e.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := e.ClaimExpired(ctx, journal.ClaimRequest{Owner: owner("r1/a"), Max: 1, MaxSchema: 1, MaxWait: journal.MaxClaimWait})
			done <- err
		}()
		cancel()
		select {
		case err := <-done:
			if err == nil {
				tb.Error("a cancelled poll has no error")
			}
		case <-time.After(patience):
			tb.Fatal("the poll goes on")
		}
		e.post(thread("s"), wake("m"))
		if got := e.claim("r1/a", 1); len(got) != 1 {
			tb.Error("the cancelled poll took the thread along")
		}
	}},
}

type answer struct {
	claims []journal.Claim
	err    error
}

// poll begins a long poll for one thread.
func (e *env) poll(id string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		claims, err := e.ClaimExpired(e.ctx, journal.ClaimRequest{Owner: owner(id), Max: 1, MaxSchema: 1, MaxWait: journal.MaxClaimWait})
		out <- answer{claims, err}
	}()
	return out
}

// result waits for a poll, for much less than the poll itself would.
func (e *env) result(poll <-chan answer) []journal.Claim {
	e.Helper()
	select {
	case got := <-poll:
		e.no(got.err)
		return got.claims
	case <-time.After(patience):
		e.Fatalf("the poll was not woken")
		return nil
	}
}
