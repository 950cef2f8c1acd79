package bleveindex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

// maxTermScores bounds the explanation of one hit.
const maxTermScores = 64

// Lookup finds documents by an exact value.
func (ix *Index) Lookup(ctx context.Context, field index.Field, value string, limit int) (docs []index.Doc, err error) {
	defer guard(&err)()
	name := map[index.Field]string{index.FieldFactID: fieldFactID, index.FieldHash: fieldHash, index.FieldSource: fieldSource}[field]
	req := bleve.NewSearchRequestOptions(term(name, value, 1), limit, 0, false)
	req.Fields = []string{fieldDoc}
	req.Score = "none"
	req.SortBy([]string{"_id"})
	res, err := ix.inner.SearchInContext(ctx, req)
	if err != nil {
		return nil, failure("look up", err)
	}
	for _, hit := range res.Hits {
		doc, err := decodeDoc(hit)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// Search finds the best documents.
func (ix *Index) Search(ctx context.Context, q index.Query) (r index.Result, err error) {
	defer guard(&err)()
	match := matching(q)
	if match == nil {
		return r, nil
	}
	conditions := append([]query.Query{match}, filters(q.Filter)...)
	var whole query.Query = match
	if len(conditions) > 1 {
		whole = query.NewConjunctionQuery(conditions)
	}
	req := bleve.NewSearchRequestOptions(whole, q.Limit, q.Offset, q.Explain)
	req.Fields = []string{fieldDoc}
	req.SortBy([]string{"-_score", "_id"})
	res, err := ix.inner.SearchInContext(ctx, req)
	if err != nil {
		return r, failure("search", err)
	}
	r.Total = int64(res.Total)
	for _, hit := range res.Hits {
		doc, err := decodeDoc(hit)
		if err != nil {
			return r, err
		}
		h := index.Hit{Doc: doc, Score: hit.Score}
		if q.Explain {
			h.Terms = explain(hit.Expl)
		}
		r.Hits = append(r.Hits, h)
	}
	return r, nil
}

func decodeDoc(hit *search.DocumentMatch) (index.Doc, error) {
	stored, ok := hit.Fields[fieldDoc].(string)
	if !ok {
		return index.Doc{}, fmt.Errorf("%w: a document without content", index.ErrDamaged)
	}
	var d index.Doc
	if err := json.Unmarshal([]byte(stored), (*storedDoc)(&d)); err != nil {
		return d, fmt.Errorf("%w: a document: %w", index.ErrDamaged, err)
	}
	return d, nil
}

// explain sums the shares of the terms.
func explain(e *search.Explanation) []index.TermScore {
	shares := map[[2]string]float64{}
	var walk func(e *search.Explanation)
	walk = func(e *search.Explanation) {
		if e == nil {
			return
		}
		if field, term, ok := weighed(e.Message); ok {
			shares[[2]string{field, term}] += e.Value
			return
		}
		for _, child := range e.Children {
			walk(child)
		}
	}
	walk(e)
	var out []index.TermScore
	for key, score := range shares {
		if score > 0 {
			out = append(out, index.TermScore{Field: key[0], Term: key[1], Score: score})
		}
	}
	slices.SortFunc(out, func(a, b index.TermScore) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Field, b.Field), strings.Compare(a.Term, b.Term))
	})
	return out[:min(len(out), maxTermScores)]
}

// weighed reads "weight(words:badge^1.000000 in d:…)" and "fieldWeight(words:badge in d:…)".
func weighed(message string) (field, term string, ok bool) {
	rest, ok := strings.CutPrefix(message, "weight(")
	if !ok {
		if rest, ok = strings.CutPrefix(message, "fieldWeight("); !ok {
			return "", "", false
		}
	}
	rest, _, ok = strings.Cut(rest, " in ")
	if !ok {
		return "", "", false
	}
	if at := strings.LastIndex(rest, "^"); at > 0 && strings.HasPrefix(message, "weight(") {
		rest = rest[:at]
	}
	return strings.Cut(rest, ":")
}
