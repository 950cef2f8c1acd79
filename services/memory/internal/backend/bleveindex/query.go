package bleveindex

import (
	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// How much a match in each field counts. A word as written counts more than its stem; something written exactly like a path or
// identifier of the query is rarely there by chance, while a part of an identifier is less than a word; a headline says what the text is about, but of many texts at once.
const (
	weightWord    = 1.0
	weightStem    = 0.6
	weightPair    = 1.0
	weightSingle  = 1.0
	weightRun     = 2.0
	weightCode    = 1.5
	weightPart    = 0.8
	weightHeading = 0.3
)

// matching builds the part of the query that scores, or nil when there is nothing to look for.
func matching(q index.Query) query.Query {
	switch {
	case q.Text.Empty():
		return nil
	case q.Prefix:
		return prefixes(q.Text)
	case q.Mode == index.ModeAll:
		return allOf(q.Text)
	case q.Mode == index.ModePhrase:
		return phrase(q.Text)
	}
	return anyOf(q.Text)
}

// anyOf is one flat list, so that Bleve's factor for the share of the list that matched rewards texts that match more of the query.
func anyOf(q text.Query) query.Query {
	var clauses []query.Query
	for _, t := range q.Informative() {
		clauses = append(clauses, alternatives(t)...)
		for _, p := range t.Pairs {
			clauses = append(clauses, term(fieldHeading, p, weightHeading))
		}
		if t.Word != "" {
			clauses = append(clauses, term(fieldHeading, t.Word, weightHeading))
		}
	}
	return either(append(clauses, codes(q)...))
}

// alternatives are the ways in which a text can have a term.
func alternatives(t text.Term) []query.Query {
	var clauses []query.Query
	if t.Word != "" {
		clauses = append(clauses, term(fieldWords, t.Word, weightWord), term(fieldCode, t.Word, weightPart))
	}
	for _, s := range t.Stems {
		clauses = append(clauses, term(fieldStems, s, weightStem))
	}
	for _, p := range t.Pairs {
		clauses = append(clauses, term(fieldPairs, p, weightPair))
	}
	if len(t.Pairs) > 1 {
		clauses = append(clauses, sequence(fieldPairs, t.Pairs, weightRun))
	}
	if len(t.Pairs) == 0 && len(t.Singles) > 0 {
		clauses = append(clauses, term(fieldSingles, t.Singles[0], weightSingle))
	}
	return clauses
}

func codes(q text.Query) []query.Query {
	var clauses []query.Query
	for _, c := range q.Code {
		clauses = append(clauses, term(fieldCode, c, weightCode))
	}
	return clauses
}

// allOf wants every informative term; what is written like code only raises the score, unless there is nothing else.
func allOf(q text.Query) query.Query {
	var must []query.Query
	for _, t := range q.Informative() {
		must = append(must, whole(t, true))
	}
	return with(must, codes(q))
}

// whole wants the word or its stem, or the whole run.
func whole(t text.Term, stemmed bool) query.Query {
	var ways []query.Query
	if t.Word != "" {
		ways = append(ways, term(fieldWords, t.Word, weightWord), term(fieldCode, t.Word, weightPart))
	}
	if stemmed {
		for _, s := range t.Stems {
			ways = append(ways, term(fieldStems, s, weightStem))
		}
	}
	switch len(t.Pairs) {
	case 0:
		if len(t.Singles) > 0 {
			ways = append(ways, term(fieldSingles, t.Singles[0], weightSingle))
		}
	default:
		ways = append(ways, sequence(fieldPairs, t.Pairs, weightRun))
	}
	return either(ways)
}

// phrase wants neighbouring words as neighbours, and runs whole.
func phrase(q text.Query) query.Query {
	var must []query.Query
	var words []string
	flush := func() {
		if len(words) > 0 {
			must = append(must, sequence(fieldWords, words, weightWord))
			words = nil
		}
	}
	for _, t := range q.Terms {
		if t.Word != "" && len(t.Singles) == 0 {
			words = append(words, t.Word)
			continue
		}
		flush()
		must = append(must, whole(t, false))
	}
	flush()
	return with(must, codes(q))
}

// prefixes finds words that begin with the last resort of a query: its words, and single characters of its runs.
func prefixes(q text.Query) query.Query {
	var clauses []query.Query
	for _, t := range q.Informative() {
		if t.Word != "" {
			p := query.NewPrefixQuery(t.Word)
			p.SetField(fieldWords)
			clauses = append(clauses, p)
		}
		for _, s := range t.Singles {
			clauses = append(clauses, term(fieldSingles, s, weightSingle))
		}
	}
	for _, c := range q.Code {
		p := query.NewPrefixQuery(c)
		p.SetField(fieldCode)
		clauses = append(clauses, p)
	}
	return either(clauses)
}

// with wants all of must; should raises the score. Without must, one of should is wanted.
func with(must, should []query.Query) query.Query {
	if len(must) == 0 {
		return either(should)
	}
	wanted := query.Query(query.NewConjunctionQuery(must))
	if len(should) == 0 {
		return wanted
	}
	return query.NewBooleanQuery([]query.Query{wanted}, should, nil)
}

func either(clauses []query.Query) query.Query {
	if len(clauses) == 0 {
		return nil
	}
	if len(clauses) == 1 {
		return clauses[0]
	}
	return query.NewDisjunctionQuery(clauses)
}

func term(field, value string, weight float64) query.Query {
	t := query.NewTermQuery(value)
	t.SetField(field)
	t.SetBoost(weight)
	return t
}

func sequence(field string, terms []string, weight float64) query.Query {
	if len(terms) == 1 {
		return term(field, terms[0], weight)
	}
	p := query.NewPhraseQuery(terms, field)
	p.SetBoost(weight)
	return p
}

// filters are conditions that do not score. A condition is a term like any other with weight 0: that is several times faster in Bleve than its filter clause.
func filters(f index.Filter) []query.Query {
	var conditions []query.Query
	add := func(field string, values []string) {
		if len(values) == 0 {
			return
		}
		var ways []query.Query
		for _, v := range values {
			ways = append(ways, term(field, v, 0))
		}
		conditions = append(conditions, either(ways))
	}
	var kinds []string
	for _, k := range f.Kinds {
		kinds = append(kinds, number(uint8(k)))
	}
	add(fieldKind, kinds)
	add(fieldFactKind, numbers(f.FactKinds))
	add(fieldTrust, numbers(f.Trusts))
	add(fieldSession, f.Sessions)
	add(fieldSpeaker, f.Speakers)
	add(fieldSource, f.Sources)
	if f.Sources != nil && len(f.Sources) == 0 {
		conditions = append(conditions, query.NewMatchNoneQuery())
	}
	if !f.Start.IsZero() || !f.End.IsZero() {
		var from, to *float64
		if !f.Start.IsZero() {
			v := float64(f.Start.UnixMilli())
			from = &v
		}
		if !f.End.IsZero() {
			v := float64(f.End.UnixMilli())
			to = &v
		}
		r := query.NewNumericRangeQuery(from, to)
		r.SetField(fieldTime)
		r.SetBoost(0)
		conditions = append(conditions, r)
	}
	return conditions
}

func numbers(values []uint8) []string {
	var out []string
	for _, v := range values {
		out = append(out, number(v))
	}
	return out
}
