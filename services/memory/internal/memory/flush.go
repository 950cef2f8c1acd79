package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	_ "embed"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

const (
	// maxFlushTokens bounds what one request to the model holds; longer ranges are read in portions.
	maxFlushTokens = 6000
	// maxFlushMessage bounds the part of one message that is read.
	maxFlushMessage = 8000
	maxFlushFacts   = 100
	maxRejected     = 100
)

//go:embed prompts/flush.md
var flushPrompt string

var flushSchema = json.RawMessage(`{
  "type": "object",
  "properties": {"facts": {"type": "array", "items": {"type": "object", "properties": {
    "text": {"type": "string"}, "kind": {"type": "string", "enum": ["fact", "preference", "decision", "commitment", "person"]},
    "seq": {"type": "integer"}, "evidence": {"type": "string"}
  }, "required": ["text", "seq", "evidence"]}}},
  "required": ["facts"]
}`)

// FlushRequest names a range of the identity's thread.
type FlushRequest struct {
	After, Through int64
	Method         Method
	DryRun         bool
	Zone           string
}

// FlushResult is what was extracted.
type FlushResult struct {
	Facts    []Saved
	Through  int64
	Messages int
	Method   Method
	Cursor   string
	Rejected []string
}

// Flush extracts facts from a range of a thread and saves them.
func (s *Service) Flush(ctx context.Context, req FlushRequest) (r FlushResult, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return r, err
	}
	if err := s.requireThreads(); err != nil {
		return r, err
	}
	if _, err := c.id.Thread(); err != nil {
		return r, err
	}
	if r.Method, err = s.method(req.Method); err != nil {
		return r, err
	}
	err = s.flush(ctx, c, req, &r)
	s.status.set(c.memoryIndex(), func(st *keyStatus) { st.flushErr = errorText(err) })
	return r, err
}

func (s *Service) flush(ctx context.Context, c call, req FlushRequest, r *FlushResult) error {
	messages, through, err := s.threads.Messages(ctx, c.id.Session, req.After, req.Through)
	if err != nil {
		return err
	}
	r.Through = through
	var said []Message
	for _, m := range messages {
		// What the assistant said follows from what it was told; what was recalled is remembered already.
		if m.Synthetic || m.Speaker == "assistant" || text.ParseQuery(m.Text).Empty() {
			continue
		}
		if len(m.Text) > maxFlushMessage {
			m.Text = text.Clip(m.Text, maxFlushMessage)
		}
		said = append(said, m)
	}
	r.Messages = len(said)
	var facts []NewFact
	if r.Method == MethodRules {
		facts = extractByRules(said)
	} else if facts, err = s.extractByModel(ctx, said, r); err != nil {
		return err
	}
	for i := range facts {
		facts[i].Provenance.Session = c.id.Session
	}
	return s.saveFlushed(ctx, c, req, facts, r)
}

// saveFlushed saves the facts of a flush, or says what would be saved.
func (s *Service) saveFlushed(ctx context.Context, c call, req FlushRequest, facts []NewFact, r *FlushResult) error {
	for start, portion := 0, 0; start < len(facts); start, portion = start+maxFlushFacts, portion+1 {
		part := facts[start:min(start+maxFlushFacts, len(facts))]
		save := SaveRequest{Facts: part, Zone: req.Zone, Title: "extracted"}
		if req.DryRun {
			w, err := s.begin(ctx, req.Zone, save)
			if err != nil {
				return err
			}
			w.effect = ""
			entries, err := w.entries(part)
			if err != nil {
				return err
			}
			s.findDuplicates(ctx, w, entries)
			r.Facts = append(r.Facts, s.outcome(ctx, w, entries)...)
			continue
		}
		saved, err := s.SaveFacts(withEffect(ctx, c, effect.Derive(c.id.Effect, "memory.flush/"+strconv.Itoa(portion))), save)
		if err != nil {
			return err
		}
		r.Facts = append(r.Facts, saved.Facts...)
		if saved.Cursor != "" {
			r.Cursor = saved.Cursor
		}
	}
	return nil
}

// extractByModel has a model read the messages in portions.
func (s *Service) extractByModel(ctx context.Context, said []Message, r *FlushResult) ([]NewFact, error) {
	var out []NewFact
	for len(said) > 0 {
		n, tokens := 0, 0
		for n < len(said) && (n == 0 || tokens < maxFlushTokens) {
			tokens += text.EstimateTokens(said[n].Text)
			n++
		}
		facts, err := s.extractPortion(ctx, said[:n], r)
		if err != nil {
			return nil, err
		}
		out = append(out, facts...)
		said = said[n:]
	}
	return out, nil
}

func (s *Service) extractPortion(ctx context.Context, said []Message, r *FlushResult) ([]NewFact, error) {
	type promptMessage struct {
		Seq     int64  `json:"seq"`
		Speaker string `json:"speaker"`
		Text    string `json:"text"`
	}
	input := struct {
		Messages []promptMessage `json:"messages"`
	}{}
	bySeq := map[int64]Message{}
	for _, m := range said {
		input.Messages = append(input.Messages, promptMessage{m.Seq, m.Speaker, m.Text})
		bySeq[m.Seq] = m
	}
	var answer struct {
		Facts []struct {
			Text     string `json:"text"`
			Kind     string `json:"kind"`
			Seq      int64  `json:"seq"`
			Evidence string `json:"evidence"`
		} `json:"facts"`
	}
	if err := s.ask(ctx, flushPrompt, input, flushSchema, &answer); err != nil {
		return nil, err
	}
	var out []NewFact
	for _, f := range answer.Facts {
		m, ok := bySeq[f.Seq]
		statement := markdown.Normalize(f.Text)
		problem := ""
		switch {
		case !ok:
			problem = "no such message"
		case text.ParseQuery(statement).Empty():
			problem = "no text"
		case len(statement) > maxModelText:
			problem = "too long"
		case text.ParseQuery(f.Evidence).Empty() || !text.Contains(m.Text, f.Evidence):
			problem = "the evidence is not in the message"
		}
		if problem != "" {
			if len(r.Rejected) < maxRejected {
				r.Rejected = append(r.Rejected, fmt.Sprintf("message %d: %s: %s", f.Seq, problem, clipped(statement)))
			}
			continue
		}
		out = append(out, flushed(m, statement, kindNames[f.Kind], f.Evidence))
	}
	return out, nil
}

var kindNames = map[string]FactKind{
	"fact": FactPlain, "preference": FactPreference, "decision": FactDecision, "commitment": FactCommitment, "person": FactPerson,
}

// flushed makes a fact of what a message says.
func flushed(m Message, statement string, kind FactKind, evidence string) NewFact {
	source := "flush"
	if m.Source != "" {
		source = m.Source
	}
	if kind == 0 {
		kind = FactPlain
	}
	return NewFact{Text: statement, Kind: kind, Provenance: Provenance{
		Seq: m.Seq, Trust: trustOf(m.Speaker), Source: source, Evidence: text.Clip(evidence, maxModelText), Speaker: m.Speaker,
	}}
}
