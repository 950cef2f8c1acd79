package text

import (
	"unicode"
	"unicode/utf8"
)

// MaxQueryTerms bounds the terms of a query; what comes after is not looked for.
const MaxQueryTerms = 256

// manyTerms is the length from which a query shows its language, so that stems of others need not be looked for.
const manyTerms = 24

// Query is what to look for.
type Query struct {
	// Terms are the words and runs of the text, in its order.
	Terms []Term
	// Code are the terms of what is more than a word. In a query that has words as well they only raise the score.
	Code []string
	// Cut says that the text was longer than what is looked for.
	Cut bool
}

// Term is one word, or one run of a script without spaces.
type Term struct {
	// Word is the folded word; empty for a run.
	Word string
	// Stems are the word's stems in every language that it may be in.
	Stems []string
	// Singles and Pairs are the characters of a run. Korean words have them too.
	Singles, Pairs []string
	// Stop says that the word is so common that it tells nothing.
	Stop bool
}

// Empty says that there is nothing to look for.
func (q Query) Empty() bool { return len(q.Terms) == 0 && len(q.Code) == 0 }

// Informative gives the terms that are not common words, or all when there are no others.
func (q Query) Informative() []Term {
	var out []Term
	for _, t := range q.Terms {
		if !t.Stop {
			out = append(out, t)
		}
	}
	if len(out) == 0 && len(q.Code) == 0 {
		return q.Terms
	}
	return out
}

// ParseQuery reads a query. Any text is one.
func ParseQuery(s string) Query {
	var q Query
	count := 0
	stop := stopWords(s)
	runs(s, func(r run) bool {
		if count >= MaxQueryTerms {
			q.Cut = true
			return false
		}
		part := s[r.start:r.end]
		var t Term
		if r.kind == runWord || r.kind == runHangul {
			if t.Word = foldWord(part); t.Word == "" {
				return true
			}
		}
		if r.kind == runWord {
			t.Stop = stop(t.Word)
			t.Stems = stems(t.Word, candidates(t.Word))
		} else {
			t.Singles, t.Pairs = grams(part)
			if room := MaxQueryTerms - count; len(t.Pairs) > room {
				t.Pairs, t.Singles, q.Cut = t.Pairs[:room], t.Singles[:min(len(t.Singles), room)], true
			}
		}
		q.Terms = append(q.Terms, t)
		count += 1 + len(t.Pairs)
		return true
	})
	if len(q.Terms) > manyTerms {
		likely := detect(s)
		for i := range q.Terms {
			if t := &q.Terms[i]; t.Stems != nil {
				t.Stems = stems(t.Word, likely)
			}
		}
	}
	q.Code = code(s)
	if len(q.Code) > MaxQueryTerms {
		q.Code, q.Cut = q.Code[:MaxQueryTerms], true
	}
	return q
}

// candidates gives the languages that a single word may be in: all of its script.
func candidates(word string) []int {
	last := len(languages) - 1
	if first, _ := utf8.DecodeRuneInString(word); unicode.Is(unicode.Cyrillic, first) {
		return []int{last}
	}
	all := make([]int, last)
	for i := range all {
		all[i] = i
	}
	return all
}
