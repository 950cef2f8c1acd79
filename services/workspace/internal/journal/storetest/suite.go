package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Factory opens a fresh, empty store with the clock, and closes it with tb.Cleanup.
type Factory func(tb testing.TB, now func() time.Time) journal.Store

// Case is one test of the suite.
type Case struct {
	Name string
	Run  func(tb testing.TB, open Factory)
}

// Cases returns the suite.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{ownerCases, commitCases, mailCases, claimCases, readCases, catalogCases, blobCases, keeperCases, isolationCases, limitCases, modelCases} {
		all = append(all, part...)
	}
	return all
}

// Run runs the suite.
func Run(t testkit.T, open Factory) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t testkit.T) { c.Run(t, open) })
	}
}

// patience bounds waits that end at once in a right store.
const patience = 5 * time.Second

// Clock is a clock that a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// env is a store under test with helpers that end the test on an error.
type env struct {
	testing.TB
	journal.Store
	ctx   context.Context
	clock *Clock
	ids   int
}

func start(tb testing.TB, open Factory) *env {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	clock := NewClock()
	return &env{TB: tb, Store: open(tb, clock.Now), ctx: ctx, clock: clock}
}

// thread is a thread of the user ana.
func thread(session string) identity.Thread {
	return identity.Thread{Tenant: "acme", Agent: "coder", User: "ana", Session: session}
}

func owner(id string) journal.Owner { return journal.Owner{ID: id, Address: "10.0.0.1:7401/" + id} }

// no ends the test on an error.
func (e *env) no(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("error: %v", err)
	}
}

// want ends the test unless the error has the reason and class.
func (e *env) want(err error, class error, reason string) {
	e.Helper()
	if errdefs.ClassOf(err) != class || errdefs.ReasonOf(err) != reason {
		e.Fatalf("error = %v (class %v, reason %q), want class %v, reason %q", err, errdefs.ClassOf(err), errdefs.ReasonOf(err), class, reason)
	}
}

func (e *env) fenced(err error) { e.Helper(); e.want(err, errdefs.ErrAborted, journal.ReasonFenced) }
func (e *env) expired(err error) {
	e.Helper()
	e.want(err, errdefs.ErrFailedPrecondition, journal.ReasonOwnerExpired)
}
func (e *env) missing(err error) {
	e.Helper()
	e.want(err, errdefs.ErrNotFound, journal.ReasonThreadNotFound)
}

func (e *env) beat(ids ...string) {
	e.Helper()
	for _, id := range ids {
		life, err := e.Heartbeat(e.ctx, owner(id), false)
		e.no(err)
		if life != journal.OwnerLife {
			e.Fatalf("life = %v, want %v", life, journal.OwnerLife)
		}
	}
}

func (e *env) acquire(t identity.Thread, id string) journal.Claim {
	e.Helper()
	claim, err := e.Acquire(e.ctx, t, owner(id), false)
	e.no(err)
	return claim
}

func (e *env) head(t identity.Thread) journal.Head {
	e.Helper()
	h, err := e.Head(e.ctx, t)
	e.no(err)
	return h
}

func (e *env) id(prefix string) string {
	e.ids++
	return fmt.Sprintf("%s-%d", prefix, e.ids)
}

// events makes events with the payloads.
func (e *env) events(payloads ...string) []journal.Event {
	out := make([]journal.Event, len(payloads))
	for i, p := range payloads {
		out[i] = journal.Event{
			Schema: 1, ID: e.id("event"), Type: "message/appended", RunID: "run", TurnID: "turn", Step: 3, Required: true, Payload: []byte(p),
		}
	}
	return out
}

// batch is a batch of the claim's owner, with a fresh id.
func (e *env) batch(c journal.Claim, payloads ...string) journal.Batch {
	return journal.Batch{Owner: c.Head.Owner.ID, Epoch: c.Head.Epoch, ID: e.id("batch"), Expected: -1, Events: e.events(payloads...)}
}

// add commits payloads.
func (e *env) add(c journal.Claim, payloads ...string) journal.Committed {
	e.Helper()
	return e.commit(c.Head.Thread, e.batch(c, payloads...))
}

func (e *env) commit(t identity.Thread, b journal.Batch) journal.Committed {
	e.Helper()
	out, err := e.Commit(e.ctx, t, b)
	e.no(err)
	return out
}

// begin makes a thread with a live owner.
func (e *env) begin(session string) journal.Claim {
	e.Helper()
	e.beat("r1/a")
	return e.acquire(thread(session), "r1/a")
}

// all reads every event of a thread.
func (e *env) all(t identity.Thread) []journal.Event {
	e.Helper()
	var out []journal.Event
	_, _, err := journal.Scan(e.ctx, e.Store, t, 0, 0, nil, func(ev journal.Event) error {
		out = append(out, ev)
		return nil
	})
	e.no(err)
	return out
}

// payloads are those of all events, "†" for a tombstone.
func (e *env) payloads(t identity.Thread) []string {
	e.Helper()
	var out []string
	for i, ev := range e.all(t) {
		if ev.Seq != int64(i+1) {
			e.Fatalf("event %d has seq %d", i+1, ev.Seq)
		}
		if ev.Redacted {
			out = append(out, "†")
			continue
		}
		out = append(out, string(ev.Payload))
	}
	return out
}

func (e *env) post(t identity.Thread, m journal.Mail) journal.Head {
	e.Helper()
	h, duplicate, err := e.Post(e.ctx, t, m)
	e.no(err)
	if duplicate {
		e.Fatalf("the first post of %q is called a duplicate", m.ID)
	}
	return h
}

func wake(id string) journal.Mail {
	return journal.Mail{ID: id, Kind: "input", Payload: []byte("payload of " + id), Wake: true}
}

// mailIDs are the ids of the open messages.
func (e *env) mailIDs(t identity.Thread, future bool) []string {
	e.Helper()
	mail, err := e.ListMail(e.ctx, t, journal.MaxListMail, future)
	e.no(err)
	return idsOf(mail)
}

func idsOf(mail []journal.Mail) []string {
	ids := []string{}
	for _, m := range mail {
		ids = append(ids, m.ID)
	}
	return ids
}

// claim asks once, without waiting.
func (e *env) claim(id string, most int) []journal.Claim {
	e.Helper()
	claims, err := e.ClaimExpired(e.ctx, journal.ClaimRequest{Owner: owner(id), Max: most, MaxSchema: 1})
	e.no(err)
	return claims
}

func sessionsOf(claims []journal.Claim) []string {
	out := []string{}
	for _, c := range claims {
		out = append(out, c.Head.Thread.Session)
	}
	return out
}

func run(state journal.RunState) journal.Run { return journal.Run{ID: "run", State: state} }
