package memory

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

// AppendRequest is Markdown for the ledger.
type AppendRequest struct {
	Text       string
	Zone       string
	Provenance Provenance
}

// AppendResult is what the text holds.
type AppendResult struct {
	Path   string
	Facts  []Fact
	Cursor string
}

// Append adds text as it is to the ledger of the day; each statement in it gets a record.
func (s *Service) Append(ctx context.Context, req AppendRequest) (r AppendResult, err error) {
	w, err := s.begin(ctx, req.Zone, req)
	if err != nil {
		return r, err
	}
	units := markdown.Parse(req.Text)
	if len(units) == 0 {
		return r, invalid(ReasonTextEmpty, "the text has no statement").With("field", "text")
	}
	p := w.provenance(req.Provenance)
	if req.Provenance.Source == "" {
		p.Source = "append"
	}
	var records []Record
	if w.effect != "" {
		records = append(records, Record{Effect: w.effect, Request: w.request, Provenance: Provenance{Time: w.at}})
	}
	for i, u := range units {
		rec := Record{Hash: contentHash(u.Text), Kind: FactPlain, Provenance: p}
		rec.ID = factID("content", rec.Hash)
		if w.effect != "" {
			rec.ID = factID("effect", w.effect, strconv.Itoa(i))
		}
		records = append(records, rec)
		f := rec.fact()
		f.Path = w.path
		r.Facts = append(r.Facts, f)
	}
	data, err := encodeRecords(records)
	if err != nil {
		return r, err
	}
	r.Path = w.path
	_, err = s.files.Append(ctx, effect.Derive(w.effect, "memory.records"), recordPath(w.path), data)
	if err == nil {
		// A blank line keeps the text apart from what stands before it, whatever that is.
		body := "\n" + strings.TrimRight(req.Text, "\n") + "\n"
		r.Cursor, err = s.files.Append(ctx, effect.Derive(w.effect, "memory.ledger"), w.path, []byte(body))
	}
	if errors.Is(err, ErrEffectMismatch) {
		return r, effectMismatch(w.effect)
	}
	return r, err
}
