package run

import (
	"sync"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// feedSize is how many messages a watcher may be behind before it is cut off and reads the journal.
const feedSize = 256

// hub hands what an actor does to the watchers of its thread.
type hub struct {
	mu     sync.Mutex
	feeds  map[*feed]struct{}
	closed bool
	// text is the answer that is being made, so that whoever comes late begins with the text so far.
	text map[bool]*partial
	run  string
}

// partial is the text of one kind, so far.
type partial struct {
	messageID string
	attempt   int32
	buf       []byte
}

// feed is one watcher's live feed. The channel is closed when the watcher is cut off or the actor ends.
type feed struct{ ch chan *orchestratorv1.RunEvent }

func newHub() *hub {
	return &hub{feeds: map[*feed]struct{}{}, text: map[bool]*partial{}}
}

// subscribe begins a feed, or returns nil when the hub is closed.
func (h *hub) subscribe() *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	f := &feed{ch: make(chan *orchestratorv1.RunEvent, feedSize)}
	for _, thinking := range []bool{true, false} {
		if p := h.text[thinking]; p != nil {
			f.ch <- &orchestratorv1.RunEvent{RunId: h.run, Item: &orchestratorv1.RunEvent_Delta{Delta: &orchestratorv1.TextDelta{
				MessageId: p.messageID, Attempt: p.attempt, Text: string(p.buf), Thinking: thinking,
			}}}
		}
	}
	h.feeds[f] = struct{}{}
	return f
}

func (h *hub) unsubscribe(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut(f)
}

// cut ends a feed. The caller holds mu.
func (h *hub) cut(f *feed) {
	if _, ok := h.feeds[f]; ok {
		delete(h.feeds, f)
		close(f.ch)
	}
}

// events hands on what was committed.
func (h *hub) events(events []*threadv1.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ev := range events {
		if ev.GetPayload().GetModelEnded() != nil || ev.GetPayload().GetRunEnded() != nil {
			clear(h.text)
		}
		h.send(&orchestratorv1.RunEvent{RunId: ev.GetRunId(), Item: &orchestratorv1.RunEvent_Event{Event: ev}})
	}
}

// delta hands on a piece of an answer.
func (h *hub) delta(run string, d *orchestratorv1.TextDelta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.GetSource() == "" {
		h.run = run
		p := h.text[d.GetThinking()]
		if p == nil || p.messageID != d.GetMessageId() || p.attempt != d.GetAttempt() {
			p = &partial{messageID: d.GetMessageId(), attempt: d.GetAttempt()}
			h.text[d.GetThinking()] = p
		}
		p.buf = append(p.buf, d.GetText()...)
	}
	h.send(&orchestratorv1.RunEvent{RunId: run, Item: &orchestratorv1.RunEvent_Delta{Delta: d}})
}

// send never waits: who is too slow is cut off. The caller holds mu.
func (h *hub) send(ev *orchestratorv1.RunEvent) {
	for f := range h.feeds {
		select {
		case f.ch <- ev:
		default:
			h.cut(f)
		}
	}
}

// close ends every feed.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for f := range h.feeds {
		h.cut(f)
	}
}
