package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// SaveRequest is facts to remember.
type SaveRequest struct {
	Facts []NewFact
	// Zone is the IANA name of the zone whose calendar day picks the ledger.
	Zone string
	// Promote puts the facts into MEMORY.md at once as well.
	Promote bool
	// Title says in the ledger how the facts came, for example "saved".
	Title string
}

// SaveResult is what became of them.
type SaveResult struct {
	Facts    []Saved
	Path     string
	Cursor   string
	Promoted bool
}

// entry is one statement on its way into a ledger.
type entry struct {
	record    Record
	text      string // as it stands in the file
	duplicate *Fact
}

// writing is what a call writes into a ledger.
type writing struct {
	call
	effect  string
	request string // hash of what was asked
	at      time.Time
	path    string
}

// SaveFacts appends facts to the ledger of the day. What is remembered already is not written again.
func (s *Service) SaveFacts(ctx context.Context, req SaveRequest) (r SaveResult, err error) {
	w, err := s.begin(ctx, req.Zone, req)
	if err != nil {
		return r, err
	}
	entries, err := w.entries(req.Facts)
	if err != nil {
		return r, err
	}
	unlock, err := s.saving.lock(ctx, w.bucket.Key())
	if err != nil {
		return r, err
	}
	defer unlock()
	s.findDuplicates(ctx, w, entries)
	r.Path = w.path
	if r.Cursor, err = s.writeEntries(ctx, w, entries, req.Title); err != nil {
		return r, err
	}
	r.Facts = s.outcome(ctx, w, entries)
	if req.Promote {
		r.Promoted, err = s.promote(ctx, w, entries)
		if err != nil && canceled(err) {
			return r, err
		}
	}
	return r, nil
}

// begin finds out who asks, when, and which ledger is meant. The time of an effect is that of its id, so that a repeat writes the same bytes into the same ledger.
func (s *Service) begin(ctx context.Context, zoneName string, request any) (w writing, err error) {
	if w.call, err = callOf(ctx); err != nil {
		return w, err
	}
	zone, err := s.zoneOf(zoneName)
	if err != nil {
		return w, err
	}
	w.at, w.effect = s.now(), w.id.Effect
	if w.effect != "" {
		if err := effect.Check(w.effect, s.now()); err != nil {
			return w, err
		}
		id, err := effect.Parse(w.effect)
		if err != nil {
			return w, err
		}
		w.at = id.Time
	}
	w.at = w.at.In(zone)
	w.path = ledgerPath(w.at)
	asked, err := json.Marshal(request)
	if err != nil {
		return w, fmt.Errorf("memory: request: %w", err)
	}
	sum := sha256.Sum256(asked)
	w.request = hex.EncodeToString(sum[:])
	return w, nil
}

// entries checks the facts and makes their records.
func (w writing) entries(facts []NewFact) ([]*entry, error) {
	var out []*entry
	for i, f := range facts {
		clean := markdown.Normalize(f.Text)
		if text.ParseQuery(clean).Empty() {
			return nil, invalid(ReasonTextEmpty, "fact %d has no text", i).With("field", "facts["+strconv.Itoa(i)+"].text")
		}
		hash := contentHash(clean)
		e := &entry{text: clean, record: Record{ID: factID("content", hash), Hash: hash, Kind: f.Kind, Topic: f.Topic, Provenance: w.provenance(f.Provenance)}}
		if w.effect != "" {
			e.record.ID = factID("effect", w.effect, strconv.Itoa(i))
		}
		if e.record.Trust == TrustUntrusted {
			e.text = quoted(clean, e.record.Source)
			e.record.Line = contentHash(e.text)
		}
		out = append(out, e)
	}
	return out, nil
}

// provenance fills in what the caller may leave out or not say.
func (w writing) provenance(p Provenance) Provenance {
	p.Agent, p.User, p.Time = w.id.Agent, w.id.User, w.at
	if p.Session == "" {
		p.Session = w.id.Session
	}
	if p.Trust == 0 {
		p.Trust = TrustAgent
	}
	if p.Source == "" {
		p.Source = "save"
	}
	return p
}

// quoted writes a statement that nobody vouches for, so that no reader takes it for an instruction of the user.
func quoted(s, source string) string {
	from := ""
	if source != "" && source != "save" && source != "append" && source != "flush" {
		from = " from " + source
	}
	return "Unverified" + clipped(from) + ": “" + strings.NewReplacer("\n", " / ", "“", "\"", "”", "\"").Replace(s) + "”"
}

// findDuplicates marks what is remembered already. Saving does not depend on the index: without it nothing is marked, and consolidation finds the repeats.
func (s *Service) findDuplicates(ctx context.Context, w writing, entries []*entry) {
	key := w.memoryIndex()
	err := s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if _, err := s.sync(ctx, l, key, s.opts.SyncTime); err != nil {
			return err
		}
		first := map[string]*entry{}
		for _, e := range entries {
			e.duplicate = nil
			f, err := s.duplicateOf(ctx, l, w, e)
			if err != nil {
				return err
			}
			e.duplicate = f
			if earlier := first[e.record.Hash]; earlier != nil && e.duplicate == nil {
				f := earlier.record.fact()
				f.Text, f.Path = earlier.text, w.path
				e.duplicate = &f
			} else {
				first[e.record.Hash] = e
			}
		}
		return nil
	})
	if err != nil {
		s.log.WarnContext(ctx, "saving without looking for repeats", "index", key, "error", err)
	}
}

// duplicateOf finds the fact that says what an entry says; nil when there is none that will do.
func (s *Service) duplicateOf(ctx context.Context, ix index.Index, w writing, e *entry) (*Fact, error) {
	found, err := ix.Lookup(ctx, index.FieldHash, e.record.Hash, 16)
	if err != nil {
		return nil, err
	}
	// A repeat of this very call finds its own facts, which are no duplicates.
	if w.effect != "" && slices.ContainsFunc(found, func(d index.Doc) bool { return d.FactID == e.record.ID }) {
		return nil, nil
	}
	for _, d := range found {
		// What nobody vouched for until now is worth saving when somebody does.
		if Trust(d.Trust) == TrustUntrusted && e.record.Trust != TrustUntrusted {
			continue
		}
		superseded, err := contradicted(ctx, ix, d)
		if err != nil {
			return nil, err
		}
		if superseded {
			continue
		}
		f, err := factOf(d)
		return &f, err
	}
	return nil, nil
}

// contradicted says whether something else was said about the same subject since: then saying it again is news.
func contradicted(ctx context.Context, ix index.Index, d index.Doc) (bool, error) {
	subject := subjectOf(d.Text)
	if subject == "" {
		return false, nil
	}
	r, err := ix.Search(ctx, index.Query{Text: text.ParseQuery(subject), Mode: index.ModeAll, Filter: index.Filter{Start: d.Time.Add(time.Millisecond)}, Limit: 20})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(r.Hits, func(h index.Hit) bool { return h.Doc.Hash != d.Hash && subjectOf(h.Doc.Text) == subject }), nil
}

// writeEntries writes the records and then the lines of what is new. The cursor is empty when nothing is.
func (s *Service) writeEntries(ctx context.Context, w writing, entries []*entry, title string) (cursor string, err error) {
	ordinals := []int{}
	for i, e := range entries {
		if e.duplicate == nil {
			ordinals = append(ordinals, i)
		}
	}
	if len(ordinals) == 0 && w.effect == "" {
		return "", nil
	}
	records, err := encodeRecords(w.recordsOf(entries, ordinals))
	if err != nil {
		return "", err
	}
	_, err = s.files.Append(ctx, effect.Derive(w.effect, "memory.records"), recordPath(w.path), records)
	if errors.Is(err, ErrEffectMismatch) {
		// Either another request has this id, or this is a repeat that finds other duplicates than the first time did: the receipt tells.
		if ordinals, err = s.receipt(ctx, w); err != nil {
			return "", err
		}
		for i, e := range entries {
			if slices.Contains(ordinals, i) {
				e.duplicate = nil
			}
		}
	}
	if err != nil {
		return "", err
	}
	if len(ordinals) == 0 {
		return "", nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s %s\n\n", w.at.Format("15:04:05 -07:00"), title)
	for _, i := range ordinals {
		b.WriteString(markdown.Item(entries[i].text))
	}
	cursor, err = s.files.Append(ctx, effect.Derive(w.effect, "memory.ledger"), w.path, []byte(b.String()))
	if errors.Is(err, ErrEffectMismatch) {
		return "", effectMismatch(w.effect)
	}
	return cursor, err
}

// recordsOf gives the records of the entries that are written, with a receipt in front where the call has an effect id.
func (w writing) recordsOf(entries []*entry, ordinals []int) []Record {
	var records []Record
	if w.effect != "" {
		records = append(records, Record{Effect: w.effect, Request: w.request, Ordinals: ordinals, Provenance: Provenance{Time: w.at}})
	}
	for _, i := range ordinals {
		records = append(records, entries[i].record)
	}
	return records
}

// receipt finds what an earlier call under the same effect id wrote. EFFECT_MISMATCH when it asked for something else.
func (s *Service) receipt(ctx context.Context, w writing) ([]int, error) {
	records, _, err := s.readRecords(ctx, w.path)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.Effect == w.effect && r.Request == w.request {
			return r.Ordinals, nil
		}
	}
	return nil, effectMismatch(w.effect)
}

// outcome tells what became of each fact, with its line where the index could be asked.
func (s *Service) outcome(ctx context.Context, w writing, entries []*entry) []Saved {
	out := make([]Saved, len(entries))
	for i, e := range entries {
		if e.duplicate != nil {
			out[i] = Saved{Fact: *e.duplicate, Duplicate: true}
			continue
		}
		f := e.record.fact()
		f.Text, f.Path = e.text, w.path
		out[i].Fact = f
	}
	key := w.memoryIndex()
	err := s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if _, err := s.sync(ctx, l, key, s.opts.SyncTime); err != nil {
			return err
		}
		for i := range out {
			found, err := l.Lookup(ctx, index.FieldFactID, out[i].Fact.ID, 16)
			if err != nil {
				return err
			}
			for _, d := range found {
				if d.Source == out[i].Fact.Path {
					out[i].Fact.Line = d.Line
				}
			}
		}
		return nil
	})
	if err != nil {
		s.log.WarnContext(ctx, "the index is behind a save", "index", key, "error", err)
	}
	return out
}
