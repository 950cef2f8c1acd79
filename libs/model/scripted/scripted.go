package scripted

import (
	"context"
	"fmt"
	"io"
	"sort"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
)

// Provider plays a script. It is safe for concurrent use; turns are taken in the order in which requests arrive.
type Provider struct {
	mu       sync.Mutex
	script   Script
	requests []model.Request
	calls    int
}

var _ model.Provider = (*Provider)(nil)

// maxRequests bounds the requests that are kept for Requests.
const maxRequests = 10000

// New plays a script from its beginning.
func New(s *Script) *Provider {
	p := &Provider{script: Script{Models: s.Models, Turns: append([]Turn(nil), s.Turns...)}}
	if len(p.script.Models) == 0 {
		p.script.Models = []Model{{Name: "script"}}
	}
	return p
}

// Must plays a script that is written in a test; one that does not parse is a panic.
func Must(script string) *Provider {
	s, err := Parse([]byte(script))
	if err != nil {
		panic(err)
	}
	return New(s)
}

// Name is "scripted".
func (p *Provider) Name() string { return "scripted" }

// Requests are the requests so far, the last maxRequests of them.
func (p *Provider) Requests() []model.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]model.Request(nil), p.requests...)
}

// Remaining is the number of turns that must still be used: those without "always".
func (p *Provider) Remaining() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, t := range p.script.Turns {
		if !t.Always && t.used < max(t.Times, 1) {
			n++
		}
	}
	return n
}

// Generate answers with the next turn that fits.
func (p *Provider) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	m, err := p.model(req.Model)
	if err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	size := inputSize(req)
	if m.ContextTokens > 0 && size > m.ContextTokens {
		return nil, model.NewError(model.KindContextOverflow, p.Name(), m.Name, "the input has %d tokens, the window is %d", size, m.ContextTokens)
	}
	turn, first, err := p.take(req)
	if err != nil {
		return nil, err
	}
	return newStream(ctx, p.Name(), m.Name, turn, first, size), nil
}

// take uses up a turn. first numbers its tool calls, so that ids are unique.
func (p *Provider) take(req model.Request) (Turn, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests = append(p.requests, req); len(p.requests) > maxRequests {
		p.requests = p.requests[1:]
	}
	for i := range p.script.Turns {
		t := &p.script.Turns[i]
		if !t.Always && t.used >= max(t.Times, 1) || !t.When.holds(req) {
			continue
		}
		if len(t.Calls) > 0 && req.ToolChoice == model.ToolChoiceNone {
			continue // a model that may call nothing calls nothing
		}
		t.used++
		first := p.calls
		p.calls += len(t.Calls)
		return *t, first, nil
	}
	last := req.Messages[len(req.Messages)-1]
	return Turn{}, 0, model.NewError(model.KindBadRequest, p.Name(), req.Model, "no turn of the script fits: model %q, %d messages, the last by %s: %.200q", req.Model, len(req.Messages), last.Role, said(last))
}

func said(m model.Message) string {
	if m.Role != model.RoleTool {
		return m.Text()
	}
	s := ""
	for _, b := range m.Blocks {
		s += b.ToolResult.Name + ": " + b.ToolResult.Content + "; "
	}
	return s
}

// Embed is not scripted.
func (p *Provider) Embed(_ context.Context, req model.EmbedRequest) (model.EmbedResponse, error) {
	return model.EmbedResponse{}, model.NewError(model.KindUnsupported, p.Name(), req.Model, "scripts make no embeddings")
}

// Info describes a model of the script.
func (p *Provider) Info(_ context.Context, name string) (model.Info, error) {
	m, err := p.model(name)
	return m.info(), err
}

// List names the models of the script.
func (p *Provider) List(context.Context) ([]model.Info, error) {
	var out []model.Info
	for _, m := range p.script.Models {
		out = append(out, m.info())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (m Model) info() model.Info {
	return model.Info{Name: m.Name, ContextTokens: m.ContextTokens, Capabilities: model.Capabilities{Chat: true, Tools: !m.NoTools}}
}

func (p *Provider) model(name string) (Model, error) {
	for _, m := range p.script.Models {
		if m.Name == name {
			return m, nil
		}
	}
	return Model{}, model.NewError(model.KindUnknownModel, p.Name(), name, "the script has no model %q", name)
}

func inputSize(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			n += len(b.Text)
			if b.ToolCall != nil {
				n += len(b.ToolCall.Arguments)
			}
			if b.ToolResult != nil {
				n += len(b.ToolResult.Content)
			}
		}
	}
	return (n + 3) / 4
}

// stream plays one turn.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	turn   Turn
	end    error // instead of a finish
	mu     sync.Mutex
	events []model.Event
	sent   int
}

func newStream(ctx context.Context, provider, name string, t Turn, first, input int) *stream {
	s := &stream{turn: t}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	var blocks []model.Block
	if t.Thinking != "" {
		blocks = append(blocks, model.Thinking(t.Thinking))
	}
	if t.Text != "" {
		blocks = append(blocks, model.Text(t.Text))
	}
	for i, c := range t.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%d", first+i+1)
		}
		args, err := c.arguments()
		if err != nil {
			args = "{}" // a script was checked when it was read
		}
		blocks = append(blocks, model.Call(id, c.Name, []byte(args)))
	}
	r := model.Response{Message: model.Assistant(blocks...), Finish: model.FinishStop}
	r.Usage = model.Usage{InputTokens: input, OutputTokens: (len(t.Text) + len(t.Thinking) + 3) / 4}
	if len(t.Tokens) == 2 {
		r.Usage = model.Usage{InputTokens: t.Tokens[0], OutputTokens: t.Tokens[1]}
	}
	if len(t.Calls) > 0 {
		r.Finish = model.FinishToolCalls
	}
	if t.Finish != "" {
		r.Finish = model.FinishReason(t.Finish)
	}
	piece := t.Piece
	if piece == 0 {
		piece = 16
	}
	s.events = model.EventsOf(r, piece)
	if t.Error != nil {
		msg := t.Error.Message
		if msg == "" {
			msg = "scripted error"
		}
		s.end = model.NewError(kinds[t.Error.Kind], provider, name, "%s", msg).After(t.Error.RetryAfter)
	}
	if t.Error != nil || t.Hang {
		s.events = s.events[:len(s.events)-2] // neither usage nor finish
	}
	return s
}

func (s *stream) Next() (model.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.turn.Interval
	if s.sent == 0 {
		wait = s.turn.Delay
	}
	if len(s.events) == 0 && s.end == nil {
		if !s.turn.Hang {
			return model.Event{}, io.EOF
		}
		<-s.ctx.Done()
	}
	if err := s.wait(wait); err != nil {
		return model.Event{}, err
	}
	s.sent++
	if len(s.events) == 0 {
		return model.Event{}, s.end
	}
	ev := s.events[0]
	s.events = s.events[1:]
	return ev, nil
}

func (s *stream) wait(d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

func (s *stream) Close() error {
	s.cancel(context.Canceled)
	return nil
}
