package text

import "unicode/utf8"

// Span is a place in a text, by bytes.
type Span struct{ Start, End int }

// Matches gives the places of s that match the query, in order, at most limit.
func Matches(s string, q Query, limit int) []Span {
	words, stemmed, singles, pairs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, t := range q.Informative() {
		if t.Word != "" {
			words[t.Word] = true
		}
		for _, st := range t.Stems {
			stemmed[st] = true
		}
		for _, p := range t.Pairs {
			pairs[p] = true
		}
		if len(t.Pairs) == 0 {
			for _, c := range t.Singles {
				singles[c] = true
			}
		}
	}
	languages := detect(s)
	var out []Span
	runs(s, func(r run) bool {
		part := s[r.start:r.end]
		if r.kind == runWord || r.kind == runHangul {
			w := foldWord(part)
			hit := words[w]
			if r.kind == runWord && !hit {
				for _, st := range stems(w, languages) {
					hit = hit || stemmed[st]
				}
			}
			if hit {
				out = append(out, Span{r.start, r.end})
				return len(out) < limit
			}
		}
		if r.kind != runWord {
			out = append(out, gramMatches(part, r.start, singles, pairs)...)
		}
		return len(out) < limit
	})
	if len(out) > limit {
		out = out[:limit]
	}
	return out
}

// gramMatches gives the places of a run that match, neighbours joined.
func gramMatches(part string, base int, singles, pairs map[string]bool) []Span {
	var out []Span
	add := func(start, end int) {
		if n := len(out); n > 0 && out[n-1].End >= start {
			out[n-1].End = max(out[n-1].End, end)
			return
		}
		out = append(out, Span{start, end})
	}
	prev, prevAt := "", -1
	for i, r := range part {
		c := Fold(string(r))
		end := base + i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			end = base + i + 1
		}
		if singles[c] {
			add(base+i, end)
		}
		if prev != "" && pairs[prev+c] {
			add(base+prevAt, end)
		}
		prev, prevAt = c, i
	}
	return out
}
