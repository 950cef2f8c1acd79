package text

import (
	"strings"
	"unicode"
)

const (
	// maxTermBytes bounds one term; longer ones are cut, in texts and queries alike.
	maxTermBytes = 128
	// border stands between runs in the pairs, so that a phrase does not match across them.
	border = "·"
)

// Terms are the terms of a text, by kind, each in the order of the text.
type Terms struct {
	Words, Stems, Singles, Pairs, Code []string
}

// Analyze gives the terms of a text that is to be indexed.
func Analyze(s string) Terms {
	var t Terms
	languages := detect(s)
	runs(s, func(r run) bool {
		part := s[r.start:r.end]
		if r.kind != runDense && r.kind != runSymbol {
			word := foldWord(part)
			if word == "" {
				return true
			}
			t.Words = append(t.Words, word)
			if r.kind == runWord {
				t.Stems = append(t.Stems, stems(word, languages)...)
			}
		}
		if r.kind != runWord {
			singles, pairs := grams(part)
			t.Singles = append(t.Singles, singles...)
			if len(pairs) > 0 {
				t.Pairs = append(append(t.Pairs, pairs...), border)
			}
		}
		return true
	})
	t.Code = code(s)
	return t
}

// elided are the words of French and Italian that lose their vowel before the next word and stick to it.
var elided = set("l d j n s c m t qu lorsqu puisqu jusqu un dell nell all sull dall quell")

// foldWord folds a word and takes off the possessive, so that "Ana's" is "ana", and what is elided, so that "l'hôtel" is "hotel".
func foldWord(s string) string {
	w := strings.ReplaceAll(Fold(s), "’", "'")
	w = strings.TrimSuffix(w, "'s")
	if before, after, ok := strings.Cut(w, "'"); ok && elided[before] && len(after) > 1 {
		w = after
	}
	return clip(strings.ReplaceAll(w, "'", ""))
}

// grams gives the characters of a run and its pairs of neighbours.
func grams(s string) (singles, pairs []string) {
	prev := ""
	for _, r := range Fold(s) {
		if unicode.IsSpace(r) || unicode.Is(unicode.M, r) && prev == "" {
			continue
		}
		c := string(r)
		singles = append(singles, c)
		if prev != "" {
			pairs = append(pairs, prev+c)
		}
		prev = c
	}
	return singles, pairs
}

// code gives the terms of what is written without spaces and is more than a word, and the parts of camelCase.
func code(s string) []string {
	var terms []string
	for _, chunk := range strings.Fields(s) {
		for _, term := range codeChunk(chunk) {
			if term != "" { // a lone accent folds to nothing
				terms = append(terms, term)
			}
		}
	}
	return terms
}

func codeChunk(chunk string) []string {
	var terms []string
	whole := Fold(chunk)
	trimmed := trimChunk(whole)
	if trimmed == "" {
		return []string{clip(whole)} // symbols alone: "~", "=>"
	}
	if interesting(trimmed) {
		terms = append(terms, clip(trimmed))
		if inner := strings.TrimFunc(trimmed, func(r rune) bool { return !word(r) && r != '+' && r != '#' }); inner != trimmed && interesting(inner) {
			terms = append(terms, clip(inner))
		}
	}
	for _, part := range humps(chunk) {
		terms = append(terms, clip(Fold(part)))
	}
	return terms
}

// trimChunk takes off the punctuation that belongs to the sentence around, and nothing when there is nothing else.
func trimChunk(s string) string {
	t := strings.TrimFunc(s, func(r rune) bool {
		return strings.ContainsRune("\"'`“”„‘’«»()[]{}<>,;!?。，、；！？「」（）*_", r)
	})
	t = strings.TrimRight(t, ".:")
	if strings.ContainsFunc(t, word) {
		return t
	}
	return ""
}

// interesting says whether a chunk is more than one word: it has a character that no word has.
func interesting(s string) bool {
	outside, inside := false, false
	for _, r := range s {
		if _, ok := kindOf(r); ok || unicode.Is(unicode.M, r) {
			inside = inside || r < 0x80
			continue
		}
		outside = outside || !apostrophe(r)
	}
	return inside && outside
}

// humps gives the parts of a camelCase identifier: "parseHTTPRequest" has parse, HTTP, Request. Other words have none.
func humps(s string) []string {
	var parts []string
	runes := []rune(s)
	start, humped := -1, false
	cut := func(end int) {
		if start >= 0 && end > start {
			parts = append(parts, string(runes[start:end]))
		}
		start = -1
	}
	for i, r := range runes {
		if !word(r) {
			cut(i)
			continue
		}
		if start >= 0 && i > 0 {
			prev := runes[i-1]
			next := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsUpper(r) && (unicode.IsLower(prev) || unicode.IsUpper(prev) && next) {
				humped = true
				cut(i)
			}
		}
		if start < 0 {
			start = i
		}
	}
	cut(len(runes))
	if !humped {
		return nil
	}
	return parts
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// clip cuts a term between characters and takes out spaces, which some characters fold to.
func clip(s string) string {
	if strings.ContainsFunc(s, unicode.IsSpace) {
		s = strings.Join(strings.Fields(s), "")
	}
	return Clip(s, maxTermBytes)
}
