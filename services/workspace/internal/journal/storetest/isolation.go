package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// hostile are ids that a careless key would mix up.
var hostile = []string{
	"a", "A", "a/b", "b", "a:b", "a-b", ".", "..", "../a", "a ", " a", "~", "+", "=61", "%61", "a+/b", "Ü", "U\u0308", "アナ", "con",
	"thread", "user", "default", "'; DROP TABLE threads; --", "a%", "_", "*", strings.Repeat("x", 256), strings.Repeat("x", 255),
}

// neighbours are threads that differ in one id, or hold the same ids in other places.
func neighbours() []identity.Thread {
	var out []identity.Thread
	for _, id := range hostile {
		out = append(out,
			identity.Thread{Tenant: id, Agent: "b", User: "c", Session: "d"},
			identity.Thread{Tenant: "t", Agent: id, User: "c", Session: "d"},
			identity.Thread{Tenant: "t", Agent: "b", User: id, Session: "d"},
			identity.Thread{Tenant: "t", Agent: "b", User: "c", Session: id})
	}
	out = append(out,
		identity.Thread{Tenant: "t", Agent: "b", Session: "d"}, // anonymous
		identity.Thread{Tenant: "t", Agent: "b/c", User: "d", Session: "e"},
		identity.Thread{Tenant: "t", Agent: "b", User: "c/d", Session: "e"},
		identity.Thread{Tenant: "t/b", Agent: "c", User: "d", Session: "e"})
	slices.SortFunc(out, func(a, b identity.Thread) int { return strings.Compare(a.Key(), b.Key()) })
	return slices.Compact(out)
}

var isolationCases = []Case{
	{"isolation/hostile ids stay apart", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		threads := neighbours()
		for _, t := range threads {
			// The ids of batch, event and message are the same everywhere: they are unique within a thread only.
			e.beat("r1/a")
			c := e.acquire(t, "r1/a")
			if c.Head.Epoch != 1 {
				tb.Fatalf("%q shares a journal with another", t)
			}
			b := journal.Batch{Owner: "r1/a", Epoch: 1, ID: "b", Expected: 0, Events: []journal.Event{{Schema: 1, ID: "e", Type: "t", Payload: []byte(t.Key())}}}
			e.commit(t, b)
			if _, duplicate, err := e.Post(e.ctx, t, journal.Mail{ID: "m", Kind: "input", Payload: []byte(t.Key())}); err != nil || duplicate {
				tb.Fatalf("%q shares a mailbox: %v, %v", t, duplicate, err)
			}
		}
		users := make(map[journal.User][]string)
		for _, t := range threads {
			if got := e.payloads(t); !slices.Equal(got, []string{t.Key()}) {
				tb.Errorf("%q holds %q", t, got)
			}
			mail, err := e.ListMail(e.ctx, t, 9, true)
			if err != nil || len(mail) != 1 || string(mail[0].Payload) != t.Key() {
				tb.Errorf("%q has the mail %v, %v", t, mail, err)
			}
			users[journal.UserOf(t)] = append(users[journal.UserOf(t)], t.Key())
		}
		for u, want := range users {
			heads, _, err := e.List(e.ctx, u, journal.MaxList, "")
			e.no(err)
			changes, err := e.Changes(e.ctx, u, "", journal.MaxChanges)
			e.no(err)
			for name, list := range map[string][]journal.Head{"list": heads, "changes": changes.Heads} {
				got := []string{}
				for _, h := range list {
					got = append(got, h.Thread.Key())
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					tb.Errorf("%s of %+v gives %q, want %q", name, u, got, want)
				}
			}
		}
	}},
	{"isolation/other people's ids are unknown", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		e.add(c, "my badge is 4471")
		e.post(thread("s"), wake("m"))
		_, cursor := e.changes("", 9)
		for _, other := range []identity.Thread{
			{Tenant: "other", Agent: "coder", User: "ana", Session: "s"}, {Tenant: "acme", Agent: "other", User: "ana", Session: "s"},
			{Tenant: "acme", Agent: "coder", User: "ben", Session: "s"}, {Tenant: "acme", Agent: "coder", Session: "s"},
		} {
			_, err := e.Head(e.ctx, other)
			e.missing(err)
			_, err = e.Read(e.ctx, other, journal.ReadRequest{})
			e.missing(err)
			_, err = e.ListMail(e.ctx, other, 9, true)
			e.missing(err)
			_, err = e.Commit(e.ctx, other, e.batch(c, "x"))
			e.missing(err)
			_, err = e.Redact(e.ctx, other, []int64{1}, "")
			e.missing(err)
			_, err = e.Fork(e.ctx, other, 1, "f")
			e.missing(err)
			e.missing(e.Await(e.ctx, other, 0))
			e.no(e.Release(e.ctx, other, "r1/a", 1))
			if existed, err := e.Delete(e.ctx, other); err != nil || existed {
				tb.Errorf("deleted as %v: %v, %v", other, existed, err)
			}
			if heads, _, err := e.List(e.ctx, journal.UserOf(other), 9, ""); err != nil || len(heads) != 0 {
				tb.Errorf("%v lists %v, %v", other, heads, err)
			}
			_, err = e.Changes(e.ctx, journal.UserOf(other), cursor, 9)
			e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		}
		e.content("s", "my badge is 4471")
		if h := e.head(thread("s")); h.Owner.ID == "" {
			tb.Error("released by a stranger")
		}
	}},
	{"isolation/blobs stay in the tenant", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		sum, err := e.PutBlob(e.ctx, "acme", []byte("plans"))
		e.no(err)
		for _, tenant := range []string{"Acme", "acme ", "other", "acme/"} {
			_, err = e.GetBlob(e.ctx, tenant, sum)
			e.want(err, errdefs.ErrNotFound, journal.ReasonBlobNotFound)
			t := identity.Thread{Tenant: tenant, Agent: "a", User: "u", Session: "s"}
			e.beat("r1/a")
			b := e.batch(e.acquire(t, "r1/a"), "x")
			b.Events[0].Blobs = []journal.BlobRef{{SHA256: sum}}
			_, err = e.Commit(e.ctx, t, b)
			e.want(err, errdefs.ErrNotFound, journal.ReasonBlobNotFound)
		}
		_, err = e.PutBlob(e.ctx, "other", []byte("plans"))
		e.no(err)
		e.addNaming(e.begin("s"), "x", "plans")
		e.delete(thread("s"))
		if got, err := e.GetBlob(e.ctx, "other", sum); err != nil || string(got) != "plans" {
			tb.Errorf("another tenant's deletion took the blob: %v", err)
		}
	}},
}

var limitCases = []Case{
	{"limits/typed errors and nothing done", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		long, wide := strings.Repeat("x", journal.MaxIDBytes+1), strings.Repeat("x", 1000)
		for name, tt := range map[string]struct {
			change   func(*journal.Batch)
			tooLarge bool
		}{
			"payload":     {func(b *journal.Batch) { b.Events[0].Payload = make([]byte, journal.MaxPayloadBytes+1) }, true},
			"batch bytes": {func(b *journal.Batch) { b.Events = e.events(slices.Repeat([]string{strings.Repeat("x", 3<<20)}, 5)...) }, true},
			"events":      {func(b *journal.Batch) { b.Events = e.events(make([]string, journal.MaxBatchEvents+1)...) }, true},
			"consume":     {func(b *journal.Batch) { b.Consume = make([]string, journal.MaxBatchConsume+1) }, true},
			"mail":        {func(b *journal.Batch) { b.Mail = make([]journal.Mail, journal.MaxBatchMail+1) }, true},
			"mail payload": {func(b *journal.Batch) {
				b.Mail = []journal.Mail{{ID: "m", Kind: "k", Payload: make([]byte, journal.MaxMailBytes+1)}}
			}, true},
			"batch id":       {func(b *journal.Batch) { b.ID = long }, false},
			"no batch id":    {func(b *journal.Batch) { b.ID = "" }, false},
			"no event id":    {func(b *journal.Batch) { b.Events[0].ID = "" }, false},
			"no type":        {func(b *journal.Batch) { b.Events[0].Type = "" }, false},
			"no schema":      {func(b *journal.Batch) { b.Events[0].Schema = 0 }, false},
			"not UTF-8":      {func(b *journal.Batch) { b.Events[0].ID = "\xff" }, false},
			"NUL":            {func(b *journal.Batch) { b.Events[0].RunID = "a\x00b" }, false},
			"same event ids": {func(b *journal.Batch) { b.Events = append(b.Events, b.Events[0]) }, false},
			"same mail":      {func(b *journal.Batch) { b.Consume = []string{"m", "m"} }, false},
			"title":          {func(b *journal.Batch) { b.Title = wide }, false},
			"expected":       {func(b *journal.Batch) { b.Expected = -2 }, false},
			"run without id": {func(b *journal.Batch) { b.Run = journal.Run{State: journal.RunRunning} }, false},
		} {
			b := e.batch(c, "x")
			tt.change(&b)
			_, err := e.Commit(e.ctx, thread("s"), b)
			class, reason := errdefs.ErrInvalidArgument, ""
			if tt.tooLarge {
				class, reason = errdefs.ErrResourceExhausted, journal.ReasonTooLarge
			}
			if errdefs.ClassOf(err) != class || errdefs.ReasonOf(err) != reason {
				tb.Errorf("%s: %v, want class %v, reason %q", name, err, class, reason)
			}
		}
		if h := e.head(thread("s")); h.Seq != 0 {
			tb.Errorf("head at %d", h.Seq)
		}
		_, err := e.PutBlob(e.ctx, "acme", make([]byte, journal.MaxBlobBytes+1))
		e.want(err, errdefs.ErrResourceExhausted, journal.ReasonTooLarge)
	}},
	{"limits/requests that no state could make right", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		e.beat("r1/a")
		bad := func(name string, err error) {
			tb.Helper()
			if errdefs.ClassOf(err) != errdefs.ErrInvalidArgument {
				tb.Errorf("%s: %v, want INVALID_ARGUMENT", name, err)
			}
		}
		_, err := e.Heartbeat(e.ctx, journal.Owner{}, false)
		bad("owner without id", err)
		_, err = e.Acquire(e.ctx, identity.Thread{Tenant: "t", Agent: "a"}, owner("r1/a"), false)
		bad("thread without session", err)
		_, _, err = e.Post(e.ctx, identity.Thread{Tenant: "t", Agent: "a", Session: "\x01"}, wake("m"))
		bad("control character", err)
		_, _, err = e.Post(e.ctx, thread("s"), journal.Mail{ID: "m"})
		bad("mail without kind", err)
		_, err = e.ListMail(e.ctx, thread("s"), 0, true)
		bad("no page", err)
		for _, r := range []journal.ClaimRequest{{Owner: owner("r1/a")}, {Owner: owner("r1/a"), Max: 65}, {Owner: owner("r1/a"), Max: 1, MaxWait: time.Hour}} {
			_, err = e.ClaimExpired(e.ctx, r)
			bad("claim", err)
		}
		_, _, err = e.List(e.ctx, ana, journal.MaxList+1, "")
		bad("list", err)
		_, err = e.Changes(e.ctx, ana, "", 0)
		bad("changes", err)
		_, err = e.Redact(e.ctx, thread("s"), nil, "")
		bad("redact nothing", err)
		_, err = e.Fork(e.ctx, thread("s"), 0, "")
		bad("fork to nowhere", err)
		if heads, _, err := e.List(e.ctx, ana, 9, ""); err != nil || len(heads) != 0 {
			tb.Errorf("threads were made: %v, %v", heads, err)
		}
	}},
}
