package threadtest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Connect gives a connection to the service; what it opens ends with the test.
type Connect func(tb testing.TB) grpc.ClientConnInterface

type testCase struct {
	name string
	run  func(e *env)
}

// Run runs the suite.
func Run(t testkit.T, connect Connect) {
	for _, part := range [][]testCase{ownerCases, commitCases, readCases, keeperCases, isolationCases} {
		for _, c := range part {
			t.Run(c.name, func(t testkit.T) { c.run(start(t, connect)) })
		}
	}
}

// env is one user of the service.
type env struct {
	testing.TB
	threadv1.ThreadServiceClient
	id  identity.Identity
	ctx context.Context
	n   int
}

func start(tb testing.TB, connect Connect) *env {
	tb.Helper()
	e := &env{TB: tb, ThreadServiceClient: threadv1.NewThreadServiceClient(connect(tb))}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	return e.as(ctx, identity.Identity{Agent: "threadtest", User: "user " + rand.Text(), Session: "s", ScopeUnset: true})
}

// as is the service as another caller sees it. The identity is in the context, where Gantry's client looks, and in the metadata, for plain clients.
func (e *env) as(ctx context.Context, id identity.Identity) *env {
	e.Helper()
	c := *e
	c.id = id
	out, err := idmeta.NewOutgoing(identity.NewContext(ctx, id), id)
	e.no(err)
	c.ctx = out
	return &c
}

// session is another thread of the same user.
func (e *env) session(name string) *env {
	id := e.id
	id.Session = name
	return e.as(e.ctx, id)
}

func (e *env) no(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("error: %v (reason %q)", err, errdefs.ReasonOf(errgrpc.FromStatus(err)))
	}
}

// want ends the test unless the error has the class and the reason of this service.
func (e *env) want(err error, class error, reason threadv1.ErrorReason) {
	e.Helper()
	err = errgrpc.FromStatus(err)
	name := ""
	if reason != 0 {
		name = reason.String()[len("ERROR_REASON_"):]
	}
	if !errors.Is(err, class) || (name != "" && errdefs.ReasonOf(err) != name) {
		e.Fatalf("error = %v (reason %q), want class %v, reason %q", err, errdefs.ReasonOf(err), class, name)
	}
	var typed *errdefs.Error
	if name != "" && errors.As(err, &typed) && typed.Domain != "gantry.thread.v1" {
		e.Errorf("the domain of %s is %q", name, typed.Domain)
	}
}

func (e *env) missing(err error) {
	e.Helper()
	e.want(err, errdefs.ErrNotFound, threadv1.ErrorReason_ERROR_REASON_THREAD_NOT_FOUND)
}

// boot is a new live owner.
func (e *env) boot() *threadv1.Owner {
	e.Helper()
	o := &threadv1.Owner{Id: "replica/" + rand.Text(), Address: "10.1.2.3:7401"}
	e.beat(o)
	return o
}

func (e *env) beat(o *threadv1.Owner) {
	e.Helper()
	r, err := e.Heartbeat(e.ctx, &threadv1.HeartbeatRequest{Owner: o})
	e.no(err)
	if life := r.GetLife().AsDuration(); life < time.Second || life > 10*time.Second {
		e.Fatalf("an owner lives %v", life)
	}
}

// keep sends heartbeats until the test ends.
func (e *env) keep(o *threadv1.Owner) {
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan struct{})
	e.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if _, err := e.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: o}); err != nil && ctx.Err() == nil {
					e.Errorf("heartbeat: %v", err)
					return
				}
			}
		}
	}()
}

// held is a thread with its owner.
type held struct {
	owner *threadv1.Owner
	epoch int64
}

func (e *env) acquire(o *threadv1.Owner) held {
	e.Helper()
	r, err := e.Acquire(e.ctx, &threadv1.AcquireRequest{Owner: o})
	e.no(err)
	return held{o, r.GetHead().GetEpoch()}
}

// text is an event with a text.
func text(id, s string) *threadv1.Event {
	return &threadv1.Event{Schema: 1, Id: id, RunId: "run", Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{
		MessageAppended: &threadv1.MessageAppended{Message: &threadv1.Message{
			Id: id, Role: threadv1.Role_ROLE_USER, Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: s}}}}},
	}}}
}

func textOf(ev *threadv1.Event) string {
	if ev.GetRedacted() {
		return "†"
	}
	for _, b := range ev.GetPayload().GetMessageAppended().GetMessage().GetBlocks() {
		return b.GetText()
	}
	return ev.GetType()
}

// batch is a commit of texts.
func (e *env) batch(h held, texts ...string) *threadv1.CommitRequest {
	e.n++
	r := &threadv1.CommitRequest{OwnerId: h.owner.GetId(), Epoch: h.epoch, BatchId: "batch-" + strconv.Itoa(e.n), ExpectedSeq: -1}
	for i, s := range texts {
		r.Events = append(r.Events, text(r.BatchId+"-"+strconv.Itoa(i), s))
	}
	return r
}

func (e *env) commit(r *threadv1.CommitRequest) *threadv1.CommitResponse {
	e.Helper()
	out, err := e.Commit(e.ctx, r)
	e.no(err)
	return out
}

// scan reads a stream to its end message.
func (e *env) scan(r *threadv1.ScanRequest) ([]*threadv1.Event, *threadv1.ScanEnd, error) {
	stream, err := e.Scan(e.ctx, r)
	if err != nil {
		return nil, nil, err
	}
	var events []*threadv1.Event
	for {
		m, err := stream.Recv()
		if err != nil {
			return events, nil, err
		}
		if m.GetEnd() == nil {
			events = append(events, m.GetEvent())
			continue
		}
		if _, err := stream.Recv(); err != io.EOF {
			e.Errorf("after the end comes %v", err)
		}
		return events, m.GetEnd(), nil
	}
}

// texts are those of all events.
func (e *env) texts() []string {
	e.Helper()
	events, _, err := e.scan(&threadv1.ScanRequest{})
	e.no(err)
	out := []string{}
	for i, ev := range events {
		if ev.GetSeq() != int64(i+1) {
			e.Errorf("event %d has seq %d", i+1, ev.GetSeq())
		}
		out = append(out, textOf(ev))
	}
	return out
}

func (e *env) head() *threadv1.ThreadHead {
	e.Helper()
	r, err := e.Head(e.ctx, &threadv1.HeadRequest{})
	e.no(err)
	return r.GetHead()
}

func (e *env) post(m *threadv1.Mail) *threadv1.PostResponse {
	e.Helper()
	r, err := e.Post(e.ctx, &threadv1.PostRequest{Mail: m})
	e.no(err)
	return r
}

func (e *env) mail(future bool) []string {
	e.Helper()
	r, err := e.ListMail(e.ctx, &threadv1.ListMailRequest{IncludeFuture: future})
	e.no(err)
	ids := []string{}
	for _, m := range r.GetMail() {
		ids = append(ids, m.GetMessageId())
	}
	return ids
}

// claim polls until the thread of the test comes; others may be due in the same service.
func (e *env) claim(o *threadv1.Owner) *threadv1.AcquireResponse {
	e.Helper()
	for e.ctx.Err() == nil {
		r, err := e.ClaimExpired(e.ctx, &threadv1.ClaimExpiredRequest{Owner: o, MaxThreads: 1, MaxSchema: 1, MaxWait: durationpb.New(20 * time.Second)})
		e.no(err)
		if len(r.GetClaims()) == 0 {
			break
		}
		for _, c := range r.GetClaims() {
			if t := c.GetHead().GetThread(); t.GetUser() == e.id.User && t.GetSession() == e.id.Session {
				return c
			}
		}
	}
	e.Fatalf("the thread was not handed out")
	return nil
}
