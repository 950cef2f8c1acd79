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
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
)

const (
	// keepAliveEvery is how often a silent stream says that it lives.
	keepAliveEvery = 15 * time.Second
	// followFor is how long one look into a journal without a local actor lasts; it ends early when an actor comes up here.
	followFor = 5 * time.Second
)

// Send hands one message to a watcher. An error ends the watch.
type Send func(*orchestratorv1.RunEvent) error

// Attach is what to watch of a run that exists.
func Attach(r *orchestratorv1.Run, after int64) Started { return Started{Run: r, After: after} }

// Watch sends what a run did after a sequence and then what it does, and ends with exactly one terminal message. The thread is that of the context's identity.
// It returns the run as it ended.
func (m *Manager) Watch(ctx context.Context, started Started, send Send) (*orchestratorv1.Run, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		m: m, ctx: ctx, key: key, run: started.Run.GetId(), steered: started.Steered, own: started.own, last: started.After, mute: started.After, send: send, offsets: map[offsetKey]int64{},
	}
	defer started.Go()
	w.ready = started.Go
	if r := started.Run; r.GetLastSeq() > 0 && r.GetLastSeq() <= w.last && outcomes[r.GetState()] != "" {
		w.last = r.GetLastSeq() - 1 // everything was sent but the terminal message
	}
	for {
		done, err := w.round()
		if err != nil {
			return nil, err
		}
		if done {
			return w.finish()
		}
	}
}

// watcher is one watch.
type watcher struct {
	m       *Manager
	ctx     context.Context
	key     identity.Thread
	run     string
	steered string // the message that must have been taken in
	own     string // the run that the message starts when it came too late
	last    int64
	mute    int64 // events up to this one were sent before
	send    Send
	// ready is called when the watch misses nothing any more.
	ready func()
	// end is the terminal event of the run when nothing of the run followed it.
	end     *threadv1.Event
	offsets map[offsetKey]int64
}

type offsetKey struct {
	message, source string
	attempt         int32
	thinking        bool
}

// round watches until the run has ended (done), or until the way of watching must change.
func (w *watcher) round() (done bool, err error) {
	if err := w.ctx.Err(); err != nil {
		return false, context.Cause(w.ctx)
	}
	a, changed := w.m.actorOf(w.key)
	if a == nil {
		return w.follow(changed)
	}
	f := a.hub.subscribe()
	if f == nil { // it is just ending
		w.ready()
		select {
		case <-changed:
		case <-w.ctx.Done():
		}
		return false, nil
	}
	defer a.hub.unsubscribe(f)
	w.ready()
	if err := w.catchUp(); err != nil || w.end != nil {
		return w.end != nil, err
	}
	return w.live(f)
}

// catchUp reads the journal to its end, which may be beyond where the feed begins: a commit is in the store before the actor tells of it.
func (w *watcher) catchUp() error {
	_, err := journal.Scan(w.ctx, w.m.threads, &threadv1.ScanRequest{AfterSeq: w.last}, w.event)
	if notFound(err) {
		return nil
	}
	return err
}

// live passes on what the actor does, until the run ends or the feed does.
func (w *watcher) live(f *feed) (done bool, err error) {
	alive := time.NewTimer(keepAliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return false, context.Cause(w.ctx)
		case <-alive.C:
			if err := w.keepAlive(); err != nil {
				return false, err
			}
		case msg, ok := <-f.ch:
			if !ok {
				return false, nil // cut off, or the actor has ended: the journal goes on
			}
			if err := w.message(msg); err != nil {
				return false, err
			}
			if w.end != nil {
				return true, nil
			}
		}
		alive.Reset(keepAliveEvery)
	}
}

func (w *watcher) message(msg *orchestratorv1.RunEvent) error {
	if ev := msg.GetEvent(); ev != nil {
		return w.event(ev)
	}
	d := msg.GetDelta()
	if msg.GetRunId() != w.run || d == nil {
		return nil
	}
	// Whoever came late, or was cut off and came back, begins with the text so far: what was sent already is not sent again.
	at := offsetKey{d.GetMessageId(), d.GetSource(), d.GetAttempt(), d.GetThinking()}
	if skip := w.offsets[at] - d.GetOffsetBytes(); skip > 0 && d.GetSource() == "" {
		if skip >= int64(len(d.GetText())) {
			return nil
		}
		d = proto.CloneOf(d)
		d.Text, d.OffsetBytes = d.GetText()[skip:], d.GetOffsetBytes()+skip
		msg = &orchestratorv1.RunEvent{RunId: msg.GetRunId(), Item: &orchestratorv1.RunEvent_Delta{Delta: d}}
	}
	w.offsets[at] = d.GetOffsetBytes() + int64(len(d.GetText()))
	return w.send(msg)
}

// event passes on an event of the run, once and in order.
func (w *watcher) event(ev *threadv1.Event) error {
	if ev.GetSeq() <= w.last {
		return nil
	}
	w.last = ev.GetSeq()
	p := ev.GetPayload()
	if w.steered != "" && (p.GetSteerApplied().GetMessageId() == w.steered || p.GetRunStarted() != nil && ev.GetRunId() == w.own) {
		w.run, w.steered = ev.GetRunId(), ""
	}
	if ev.GetRunId() != w.run {
		return nil
	}
	w.end = nil
	if p.GetRunEnded() != nil && w.steered == "" {
		w.end = ev
	}
	if ev.GetSeq() <= w.mute {
		return nil
	}
	if ev.GetPayloadSha256() != "" && !ev.GetRedacted() {
		ev.PayloadSha256 = "" // the store's own, not in the live feed: an event is the same whichever way it came
	}
	return w.send(&orchestratorv1.RunEvent{RunId: w.run, Item: &orchestratorv1.RunEvent_Event{Event: ev}})
}

// follow reads the journal of a thread that no actor here works on.
func (w *watcher) follow(changed <-chan struct{}) (done bool, err error) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-changed:
				var a *actor
				if a, changed = w.m.actorOf(w.key); a != nil {
					cancel()
					return
				}
			case <-stop:
				return
			}
		}
	}()
	w.ready()
	stream, err := w.m.threads.Follow(ctx, &threadv1.FollowRequest{AfterSeq: w.last, MaxWait: durationpb.New(followFor)})
	if err != nil {
		return false, w.followError(ctx, err)
	}
	past := true
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) || msg.GetEnd() != nil {
			return w.end != nil, w.keepAlive()
		}
		if err != nil {
			return false, w.followError(ctx, err)
		}
		if ev := msg.GetEvent(); ev != nil {
			if err := w.event(ev); err != nil {
				return false, err
			}
		}
		if msg.GetCaughtUp() != nil {
			past = false
		}
		if !past && w.end != nil {
			return true, nil
		}
	}
}

// followError says whether the watch goes on: it does when only this look into the journal ended.
func (w *watcher) followError(ctx context.Context, err error) error {
	switch {
	case w.ctx.Err() != nil:
		return context.Cause(w.ctx)
	case ctx.Err() != nil:
		return nil
	case notFound(err) || transient(err): // a thread that has mail and no event yet, or a store that comes back
		select {
		case <-time.After(100 * time.Millisecond):
		case <-w.ctx.Done():
		}
		return nil
	}
	return err
}

func (w *watcher) keepAlive() error {
	if w.end != nil {
		return nil
	}
	return w.send(&orchestratorv1.RunEvent{RunId: w.run, Item: &orchestratorv1.RunEvent_KeepAlive{KeepAlive: &orchestratorv1.KeepAlive{Seq: w.last}}})
}

// finish sends the one terminal message.
func (w *watcher) finish() (*orchestratorv1.Run, error) {
	r, err := w.m.Get(w.ctx, w.run)
	if err != nil {
		return nil, err
	}
	if r.GetLastSeq() < w.end.GetSeq() { // the store has the end before the actor tells of it
		views, err := w.m.Views(w.ctx, w.key)
		if err != nil {
			return nil, err
		}
		if fresh := views.Find(w.run); fresh != nil {
			r = fresh
		}
	}
	// The run may have gone on meanwhile; the stream ends with what it has shown.
	ended := w.end.GetPayload().GetRunEnded()
	r = proto.CloneOf(r)
	r.State, r.Reason, r.Message, r.Text, r.Output = ended.GetState(), ended.GetReason(), ended.GetMessage(), ended.GetText(), ended.GetOutput()
	r.EndTime = w.end.GetTime()
	return r, w.send(&orchestratorv1.RunEvent{RunId: w.run, Item: &orchestratorv1.RunEvent_Terminal{Terminal: &orchestratorv1.RunTerminal{
		Outcome: outcomes[r.GetState()], Run: r,
	}}})
}
