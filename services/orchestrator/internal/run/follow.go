package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

const (
	// forwardEvery gathers events of a child, so that a busy child costs its parent few commits.
	forwardEvery = 300 * time.Millisecond
	// forwardBytes bounds the texts of a forwarded event: the child's own thread has the whole.
	forwardBytes = 2_000
	// forwardMax bounds the events that one call forwards.
	forwardMax = 200
	spawnTool  = "agent_spawn"
)

// ChildSession is the session of the child that a call with that effect id spawns: a repeat finds the same thread, and nobody can guess or choose it.
func ChildSession(effectID string) string {
	sum := sha256.Sum256([]byte(effect.Derive(effectID, "child")))
	return "sub-" + hex.EncodeToString(sum[:16])
}

// follow forwards what a child does into the stream of this run, for as long as the call waits for it.
func (a *actor) follow(ctx context.Context, c *loop.Call) {
	if c.Call.GetName() != spawnTool {
		return
	}
	child := a.key
	child.Session = ChildSession(c.Dispatched.GetEffect())
	callID, run := c.Call.GetId(), a.state.Run.ID
	a.m.work.Go(func() {
		f := &forwarder{a: a, call: callID, run: run, child: child}
		f.forward(ctx)
	})
}

// forwarder follows one child.
type forwarder struct {
	a      *actor
	call   string
	run    string
	child  identity.Thread
	source string
	task   string
	sent   int
	batch  []*threadv1.EventPayload
}

func (f *forwarder) forward(ctx context.Context) {
	// The child's thread is of the same tenant, agent and user; its scope does not matter for its journal.
	ctx = identity.NewContext(ctx, identity.Identity{Tenant: f.child.Tenant, Agent: f.child.Agent, User: f.child.User, Session: f.child.Session, Scope: identity.ScopeSession})
	events, deltas := make(chan *threadv1.Event, 64), make(chan *orchestratorv1.TextDelta, feedSize)
	f.a.m.work.Go(func() { f.journal(ctx, events) })
	f.a.m.work.Go(func() { f.live(ctx, deltas) })
	tick := time.NewTicker(forwardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-events:
			f.take(ev)
		case d := <-deltas:
			d = proto.CloneOf(d)
			d.Source = f.source
			f.a.hub.delta(f.run, d)
		case <-tick.C:
			f.send()
		}
	}
}

// journal reads the child's events as they are committed, on whichever replica.
func (f *forwarder) journal(ctx context.Context, out chan<- *threadv1.Event) {
	after := int64(0)
	for ctx.Err() == nil {
		stream, err := f.a.m.threads.Follow(ctx, &threadv1.FollowRequest{AfterSeq: after, MaxWait: durationpb.New(time.Minute)})
		for err == nil {
			var msg *threadv1.FollowResponse
			if msg, err = stream.Recv(); err == nil && msg.GetEvent() != nil {
				after = msg.GetEvent().GetSeq()
				select {
				case out <- msg.GetEvent():
				case <-ctx.Done():
					return
				}
			}
		}
		if !errors.Is(err, context.Canceled) {
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
