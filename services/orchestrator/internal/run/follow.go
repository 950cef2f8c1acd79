package run

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	// forwardEvery gathers events of a child, so that a busy child costs its parent few commits.
	forwardEvery = 300 * time.Millisecond
	// forwardBytes bounds the texts of a forwarded event: the child's own thread has the whole.
	forwardBytes = 2_000
	// forwardMax bounds the events that one call forwards.
	forwardMax = 200
	// restTimeout bounds the last look into a child's journal.
	restTimeout = 5 * time.Second
	spawnTool   = "agent_spawn"
)

// follow forwards what a child does into the stream of this run, for as long as the call waits for it. The returned function ends that, after what the child
// has done until then was forwarded.
func (a *actor) follow(ctx context.Context, c *loop.Call) (end func()) {
	if c.Call.GetName() != spawnTool {
		return func() {}
	}
	child := a.key
	child.Session = tool.ChildSession(c.Dispatched.GetEffect())
	f := &forwarder{a: a, call: c.Call.GetId(), run: a.state.Run.ID, child: child, events: make(chan *threadv1.Event, 64), deltas: make(chan *orchestratorv1.TextDelta, feedSize)}
	// The child's thread is of the same tenant, agent and user; its scope does not matter for its journal.
	id := identity.Identity{Tenant: child.Tenant, Agent: child.Agent, User: child.User, Session: child.Session, Scope: identity.ScopeSession}
	outer := credential.NewContext(identity.NewContext(ctx, id), a.m.issuer.Service(id))
	inner, stop := context.WithCancel(outer)
	done := make(chan struct{})
	a.m.work.Go(func() {
		defer close(done)
		f.forward(inner)
		f.rest(outer)
	})
	return func() { stop(); <-done }
}

// forwarder follows one child.
type forwarder struct {
	a      *actor
	call   string
	run    string
	child  identity.Thread
	source string
	task   string
	after  int64
	sent   int
	batch  []*threadv1.EventPayload
	events chan *threadv1.Event
	deltas chan *orchestratorv1.TextDelta
}

func (f *forwarder) forward(ctx context.Context) {
	f.a.m.work.Go(func() { f.journal(ctx) })
	f.a.m.work.Go(func() { f.live(ctx, f.deltas) })
	tick := time.NewTicker(forwardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-f.events:
			f.take(ev)
		case d := <-f.deltas:
			if f.source == "" {
				continue // whose text it is is not known yet, and as the parent's own it would be wrong
			}
			d = proto.CloneOf(d)
			d.Source = f.source
			f.a.hub.delta(f.run, d)
		case <-tick.C:
			f.send()
		}
	}
}

// rest forwards what the child had done when the call ended: the journal is the truth, and the live feed may be behind it.
func (f *forwarder) rest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	_, err := journal.Scan(ctx, f.a.m.threads, &threadv1.ScanRequest{AfterSeq: f.after}, func(ev *threadv1.Event) error {
		f.take(ev)
		return nil
	})
	if err != nil && !notFound(err) && ctx.Err() == nil {
		f.a.log.Warn("the end of a child could not be forwarded", "child", f.child.Session, "error", err)
	}
	f.send()
}

// journal reads the child's events as they are committed, on whichever replica.
func (f *forwarder) journal(ctx context.Context) {
	after := int64(0)
	for ctx.Err() == nil {
		stream, err := f.a.m.threads.Follow(ctx, &threadv1.FollowRequest{AfterSeq: after, MaxWait: durationpb.New(time.Minute)})
		for err == nil {
			var msg *threadv1.FollowResponse
			if msg, err = stream.Recv(); err == nil && msg.GetEvent() != nil {
				after = msg.GetEvent().GetSeq()
				select {
				case f.events <- msg.GetEvent():
				case <-ctx.Done():
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			select { // the child's thread may not exist yet
			case <-time.After(forwardEvery):
			case <-ctx.Done():
			}
		}
	}
}

// live hands on the text of a child that works on this replica.
func (f *forwarder) live(ctx context.Context, out chan<- *orchestratorv1.TextDelta) {
	for ctx.Err() == nil {
		child, changed := f.a.m.actorOf(f.child)
		if child == nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		sub := child.hub.subscribe()
		if sub == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		f.drain(ctx, sub, out)
		child.hub.unsubscribe(sub)
	}
}

func (f *forwarder) drain(ctx context.Context, sub *feed, out chan<- *orchestratorv1.TextDelta) {
	for {
		select {
		case ev, ok := <-sub.ch:
			if !ok {
				return
			}
			if d := ev.GetDelta(); d != nil && d.GetSource() == "" {
				select {
				case out <- d:
				default: // text on the way may be lost; the event with the whole text is not
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// take keeps the events of the child that say what it does.
func (f *forwarder) take(ev *threadv1.Event) {
	f.after = ev.GetSeq()
	if s := ev.GetPayload().GetRunStarted(); s != nil {
		f.source, f.task = childLabel(s), s.GetTaskId()
	}
	if f.sent >= forwardMax {
		return
	}
	short := shorten(ev)
	if short == nil {
		return
	}
	f.sent++
	f.batch = append(f.batch, &threadv1.EventPayload{Kind: &threadv1.EventPayload_SubagentEvent{
		SubagentEvent: &threadv1.SubagentEvent{Source: f.source, TaskId: f.task, Event: short},
	}})
	if ev.GetPayload().GetRunEnded() != nil || ev.GetPayload().GetInteractionRequested() != nil {
		f.send()
	}
}

func (f *forwarder) send() {
	if len(f.batch) == 0 {
		return
	}
	f.a.tellTool(toolNews{call: f.call, forward: f.batch})
	f.batch = nil
}

// childLabel names a child in the stream of its parent.
func childLabel(s *threadv1.RunStarted) string {
	settings, err := loop.ParseSettings(s.GetSettings())
	if err != nil {
		return s.GetTaskId()
	}
	return labelOf(settings)
}

// shorten returns the part of an event that a parent's stream shows; nil for events that it does not.
func shorten(ev *threadv1.Event) *threadv1.Event {
	switch ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RunStarted, *threadv1.EventPayload_RunEnded, *threadv1.EventPayload_ModelEnded, *threadv1.EventPayload_ToolRequested,
		*threadv1.EventPayload_ToolEnded, *threadv1.EventPayload_InteractionRequested, *threadv1.EventPayload_InteractionResolved, *threadv1.EventPayload_SubagentEvent:
	default:
		return nil
	}
	ev = proto.CloneOf(ev)
	switch p := ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RunStarted:
		p.RunStarted.Settings = nil
	case *threadv1.EventPayload_RunEnded:
		p.RunEnded.Text = clip(p.RunEnded.GetText(), forwardBytes)
	case *threadv1.EventPayload_ModelEnded:
		for _, b := range p.ModelEnded.GetMessage().GetBlocks() {
			shortenBlock(b)
		}
	case *threadv1.EventPayload_ToolRequested:
		p.ToolRequested.Call.ArgumentsJson = clip(p.ToolRequested.GetCall().GetArgumentsJson(), forwardBytes)
	case *threadv1.EventPayload_ToolEnded:
		p.ToolEnded.Result.Text, p.ToolEnded.Result.Data = clip(p.ToolEnded.GetResult().GetText(), forwardBytes), nil
	}
	return ev
}

func shortenBlock(b *threadv1.ContentBlock) {
	switch p := b.GetBlock().(type) {
	case *threadv1.ContentBlock_Text:
		p.Text = clip(p.Text, forwardBytes)
	case *threadv1.ContentBlock_Thinking:
		p.Thinking.Text = clip(p.Thinking.GetText(), forwardBytes)
	case *threadv1.ContentBlock_ToolCall:
		p.ToolCall.ArgumentsJson = clip(p.ToolCall.GetArgumentsJson(), forwardBytes)
	}
}
