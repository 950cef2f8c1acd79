package bleveindex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
	bindex "github.com/blevesearch/bleve_index_api"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// sourcePrefix begins the ids under which the states of sources are kept. Ids of documents get another one.
const (
	sourcePrefix = "s:"
	docPrefix    = "d:"
	// maxSources bounds the sources of one index.
	maxSources = 1_000_000
)

// Index is one open index.
type Index struct {
	inner bleve.Index

	mu        sync.Mutex
	revisions map[string]string
}

var _ index.Index = (*Index)(nil)

// newIndex reads the revisions of the sources.
func newIndex(inner bleve.Index) (*Index, error) {
	ix := &Index{inner: inner, revisions: map[string]string{}}
	if err := ix.load(); err != nil {
		inner.Close()
		return nil, err
	}
	return ix, nil
}

func (ix *Index) load() (err error) {
	defer guard(&err)()
	q := query.NewTermQuery(sourcePrefix)
	q.SetField(fieldKind)
	req := bleve.NewSearchRequestOptions(q, maxSources, 0, false)
	req.Fields = []string{fieldState}
	req.Score = "none"
	res, err := ix.inner.Search(req)
	if err != nil {
		return fmt.Errorf("%w: sources: %w", index.ErrDamaged, err)
	}
	for _, hit := range res.Hits {
		state, ok := hit.Fields[fieldState].(string)
		if !ok {
			return fmt.Errorf("%w: source %q has no state", index.ErrDamaged, hit.ID)
		}
		revision, _, _ := strings.Cut(state, "\n")
		ix.revisions[strings.TrimPrefix(hit.ID, sourcePrefix)] = revision
	}
	return nil
}

// Apply makes the changes of the batch.
func (ix *Index) Apply(ctx context.Context, b index.Batch) (err error) {
	defer guard(&err)()
	if err := ctx.Err(); err != nil {
		return err
	}
	batch := ix.inner.NewBatch()
	for _, id := range b.Delete {
		batch.Delete(docPrefix + id)
	}
	for i := range b.Put {
		fields, err := fieldsOf(&b.Put[i])
		if err != nil {
			return err
		}
		if err := batch.Index(docPrefix+b.Put[i].ID, fields); err != nil {
			return fmt.Errorf("bleveindex: %w", err)
		}
	}
	for name, state := range b.Sources {
		if state == nil {
			batch.Delete(sourcePrefix + name)
			continue
		}
		fields := map[string]any{fieldKind: sourcePrefix, fieldName: name, fieldState: encodeSource(state)}
		if err := batch.Index(sourcePrefix+name, fields); err != nil {
			return fmt.Errorf("bleveindex: %w", err)
		}
	}
	if err := ix.inner.Batch(batch); err != nil {
		return failure("apply", err)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for name, state := range b.Sources {
		if state == nil {
			delete(ix.revisions, name)
		} else {
			ix.revisions[name] = state.Revision
		}
	}
	return nil
}

// Revisions gives the revisions of the sources.
func (ix *Index) Revisions(context.Context) (map[string]string, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return maps.Clone(ix.revisions), nil
}

// Source reads the state of a source.
func (ix *Index) Source(_ context.Context, name string) (s index.Source, ok bool, err error) {
	defer guard(&err)()
	ix.mu.Lock()
	_, known := ix.revisions[name]
	ix.mu.Unlock()
	if !known {
		return s, false, nil
	}
	doc, err := ix.inner.Document(sourcePrefix + name)
	if err != nil {
		return s, false, failure("source", err)
	}
	if doc == nil {
		return s, false, fmt.Errorf("%w: the state of source %q is gone", index.ErrDamaged, name)
	}
	var state string
	doc.VisitFields(func(f bindex.Field) {
		if f.Name() == fieldState {
			state = string(f.Value())
		}
	})
	s, err = decodeSource(state)
	return s, err == nil, err
}

// Stats counts documents and sources.
func (ix *Index) Stats(context.Context) (st index.Stats, err error) {
	defer guard(&err)()
	n, err := ix.inner.DocCount()
	if err != nil {
		return st, failure("count", err)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	st.Sources = int64(len(ix.revisions))
	st.Docs = int64(n) - st.Sources
	return st, nil
}

// Close closes the index.
func (ix *Index) Close() (err error) {
	defer guard(&err)()
	return ix.inner.Close()
}

// storedDoc is a document as it is kept in its field.
type storedDoc index.Doc

// fieldsOf gives the fields that Bleve gets for a document.
func fieldsOf(d *index.Doc) (map[string]any, error) {
	stored, err := json.Marshal((*storedDoc)(d))
	if err != nil {
		return nil, fmt.Errorf("bleveindex: %w", err)
	}
	terms := text.Analyze(d.Text)
	headings := text.Analyze(strings.Join(d.Headings, "\n"))
	return map[string]any{
		fieldWords:    strings.Join(terms.Words, " "),
		fieldStems:    strings.Join(terms.Stems, " "),
		fieldSingles:  strings.Join(terms.Singles, " "),
		fieldPairs:    strings.Join(terms.Pairs, " "),
		fieldCode:     strings.Join(terms.Code, " "),
		fieldHeading:  strings.Join(append(headings.Words, headings.Pairs...), " "),
		fieldKind:     number(uint8(d.Kind)),
		fieldFactKind: number(d.FactKind),
		fieldTrust:    number(d.Trust),
		fieldSource:   d.Source,
		fieldSession:  d.Session,
		fieldSpeaker:  d.Speaker,
		fieldFactID:   d.FactID,
		fieldHash:     d.Hash,
		fieldTime:     float64(d.Time.UnixMilli()),
		fieldDoc:      string(stored),
	}, nil
}

func number(n uint8) string { return strconv.Itoa(int(n)) }

// encodeSource writes the revision on the first line and a document on each other one.
func encodeSource(s *index.Source) string {
	var b strings.Builder
	b.WriteString(s.Revision)
	for id, print := range s.Docs {
		b.WriteString("\n" + print + " " + id)
	}
	return b.String()
}

func decodeSource(state string) (index.Source, error) {
	s := index.Source{Docs: map[string]string{}}
	lines := bufio.NewScanner(strings.NewReader(state))
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); first = false {
		if first {
			s.Revision = lines.Text()
			continue
		}
		print, id, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			return s, fmt.Errorf("%w: the state of a source", index.ErrDamaged)
		}
		s.Docs[id] = print
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("%w: the state of a source: %w", index.ErrDamaged, err)
	}
	return s, nil
}

// failure classifies an error of Bleve. What is neither the context's nor the disk's is damage.
func failure(doing string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, bleve.ErrorIndexClosed):
		return fmt.Errorf("bleveindex: %s: %w", doing, err)
	}
	return fmt.Errorf("%w: %s: %w", index.ErrDamaged, doing, err)
}
