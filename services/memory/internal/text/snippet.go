package text

import (
	"strings"
	"unicode/utf8"
)

// Snippet cuts out of s at most size bytes around the first match, between characters, and gives the matches that lie within.
func Snippet(s string, matches []Span, size int) (snippet string, within []Span, cut bool) {
	if len(s) <= size {
		return s, matches, false
	}
	start := 0
	if len(matches) > 0 {
		// A third of the room goes before the match: what leads to it is mostly shorter than what follows.
		start = max(0, min(matches[0].Start-size/3, len(s)-size))
	}
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	end := min(start+size, len(s))
	for end > start && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	for _, m := range matches {
		if m.Start >= start && m.End <= end {
			within = append(within, Span{m.Start - start, m.End - start})
		}
	}
	return s[start:end], within, true
}

// Clip cuts s after at most size bytes, between characters.
func Clip(s string, size int) string {
	if len(s) <= size {
		return s
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size]
}

// Contains says whether s holds the words of part, whatever the letter case, accents and white space.
func Contains(s, part string) bool { return strings.Contains(Canonical(s), Canonical(part)) }
