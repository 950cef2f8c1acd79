package memory

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// maxModelText bounds one statement that a model writes.
const maxModelText = 2000

//go:embed prompts/consolidate.md
var consolidatePrompt string

var consolidateSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "add": {"type": "array", "items": {"type": "object", "properties": {
      "text": {"type": "string"}, "section": {"type": "string"},
      "sources": {"type": "array", "items": {"type": "string"}}, "replaces": {"type": "array", "items": {"type": "string"}}
    }, "required": ["text", "sources"]}},
    "drop": {"type": "array", "items": {"type": "string"}},
    "ignore": {"type": "array", "items": {"type": "string"}}
  },
  "required": ["add"]
}`)

// ask sends one request and decodes the answer, which must be one JSON value; models that wrap it in a fence are forgiven.
func (s *Service) ask(ctx context.Context, system string, input any, schema json.RawMessage, into any) error {
	data, err := json.MarshalIndent(input, "", " ")
	if err != nil {
		return fmt.Errorf("memory: request to the model: %w", err)
	}
	if s.opts.ModelTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opts.ModelTimeout)
		defer cancel()
	}
	zero := 0.0
	stream, err := s.opts.Model.Generate(ctx, model.Request{
		Model: s.opts.ModelName, System: system, Messages: []model.Message{model.User(string(data))}, ResponseSchema: schema, Temperature: &zero,
	})
	if err != nil {
		return s.modelFailed("%w", err)
	}
	answer, err := model.Collect(stream)
	if err != nil {
		return s.modelFailed("%w", err)
	}
	if answer.Finish == model.FinishLength {
		return s.modelFailed("the answer was cut at the model's limit")
	}
	body := strings.TrimSpace(answer.Message.Text())
	body = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(body, "```json"), "```"), "```")
	if err := json.Unmarshal([]byte(body), into); err != nil {
		return s.modelFailed("the answer is no JSON of the schema: %w", err)
	}
	return nil
}

// The input of the consolidation prompt.
type (
	promptLine struct {
		ID      string `json:"id"`
		Section string `json:"section,omitempty"`
		Text    string `json:"text"`
		Date    string `json:"date,omitempty"`
	}
	promptEntry struct {
		ID         string `json:"id"`
		Text       string `json:"text"`
		Time       string `json:"time"`
		Kind       string `json:"kind,omitempty"`
		Topic      string `json:"topic,omitempty"`
		Unverified bool   `json:"unverified,omitempty"`
	}
	consolidateInput struct {
		Lines      []promptLine  `json:"lines"`
		ByHand     string        `json:"written_by_hand,omitempty"`
		Entries    []promptEntry `json:"entries"`
		Sections   []string      `json:"sections"`
		BudgetLeft int           `json:"budget_left_tokens"`
	}
	consolidateAnswer struct {
		Add []struct {
			Text     string   `json:"text"`
			Section  string   `json:"section"`
			Sources  []string `json:"sources"`
			Replaces []string `json:"replaces"`
		} `json:"add"`
		Drop   []string `json:"drop"`
		Ignore []string `json:"ignore"`
	}
)

// planByModel has a model decide. It names lines and entries by number and never writes the file; what it says nothing about is merged by rules, so that nothing is lost by its silence.
func (s *Service) planByModel(ctx context.Context, doc memoryDoc, entries []ledgerEntry) (plan, error) {
	lines, input := s.consolidateInput(doc, entries)
	var answer consolidateAnswer
	if err := s.ask(ctx, consolidatePrompt, input, consolidateSchema, &answer); err != nil {
		return plan{}, err
	}
	var p plan
	covered := map[int]bool{}
	for _, a := range answer.Add {
		sources := pick(a.Sources, "e", len(entries))
		statement := markdown.Normalize(a.Text)
		if len(sources) == 0 || len(statement) > maxModelText || text.ParseQuery(statement).Empty() {
			continue // without a source it would be the model's own invention
		}
		for _, i := range sources {
			covered[i] = true
		}
		var replaces []string
		for _, i := range pick(a.Replaces, "m", len(lines)) {
			replaces = append(replaces, lines[i].Hash)
		}
		p.adds = append(p.adds, modelAddition(statement, a.Section, sources, entries, replaces))
	}
	for _, i := range pick(answer.Drop, "m", len(lines)) {
		p.drops = append(p.drops, lines[i].Hash)
	}
	for _, i := range pick(answer.Ignore, "e", len(entries)) {
		covered[i] = true
		p.duplicates++
	}
	var rest []ledgerEntry
	for i, e := range entries {
		if !covered[i] {
			rest = append(rest, e)
		}
	}
	byRules := planByRules(doc.cur, rest)
	p.adds = append(p.adds, byRules.adds...)
	p.duplicates += byRules.duplicates
	return p, nil
}

func (s *Service) consolidateInput(doc memoryDoc, entries []ledgerEntry) (lines []Record, in consolidateInput) {
	section := ""
	var byHand strings.Builder
	for _, b := range doc.cur.blocks {
		if b.heading != "" {
			section = b.heading
		}
		switch {
		case b.item:
			in.Lines = append(in.Lines, promptLine{"m" + strconv.Itoa(len(lines)+1), section, statementOf(b), b.record.Time.Format("2006-01-02")})
			lines = append(lines, b.record)
		case !b.own:
			byHand.WriteString(b.raw)
		}
	}
	in.ByHand = strings.TrimSpace(byHand.String())
	for i, e := range entries {
		in.Entries = append(in.Entries, promptEntry{
			ID: "e" + strconv.Itoa(i+1), Text: e.Text, Time: e.Time.In(s.zone).Format("2006-01-02 15:04"),
			Kind: kindTitles[e.Kind], Topic: e.Topic, Unverified: e.Trust == TrustUntrusted,
		})
	}
	for _, kind := range []FactKind{FactPlain, FactPreference, FactDecision, FactCommitment, FactPerson} {
		in.Sections = append(in.Sections, kindTitles[kind])
	}
	in.BudgetLeft = max(0, s.opts.BudgetTokens-doc.cur.tokens())
	return lines, in
}

// modelAddition makes the addition of a statement that a model wrote. It is no more to be believed than the least believed of its sources.
func modelAddition(statement, section string, sources []int, entries []ledgerEntry, replaces []string) addition {
	rec := entries[sources[0]].Record
	var from []string
	for _, i := range sources {
		e := entries[i]
		from = append(from, e.ID)
		if e.Time.After(rec.Time) {
			trust := rec.Trust
			rec = e.Record
			rec.Trust = trust
		}
		if e.Trust == TrustUntrusted {
			rec.Trust = TrustUntrusted
		}
	}
	rec.Hash = contentHash(statement)
	rec = consolidated(rec, from)
	if section = strings.TrimLeft(markdown.Normalize(section), "# "); section != "" && len(section) <= 80 && !strings.Contains(section, "\n") {
		rec.Topic = section
	}
	shown := statement
	if rec.Trust == TrustUntrusted && !strings.HasPrefix(statement, "Unverified") {
		shown = quoted(statement, "")
	}
	return addition{title: titleOf(rec), text: shown, record: rec, replaces: replaces}
}

// pick reads ids such as "e3" as positions, leaving out what is none and repeats.
func pick(ids []string, prefix string, count int) []int {
	var out []int
	for _, id := range ids {
		digits, ok := strings.CutPrefix(id, prefix)
		n, err := strconv.Atoi(digits)
		if ok && err == nil && n >= 1 && n <= count && !slices.Contains(out, n-1) {
			out = append(out, n-1)
		}
	}
	return out
}
