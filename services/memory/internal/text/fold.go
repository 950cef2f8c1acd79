package text

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// letters that have no decomposition but are written without their stroke or ligature by many.
var plain = strings.NewReplacer(
	"ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i", "ς", "σ", "ё", "е",
)

// Fold makes texts that differ only in letter case, accents of alphabetic scripts, or width equal.
func Fold(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	strip := false // the last letter belongs to a script whose marks are accents, not letters
	for _, r := range norm.NFKC.String(s) {
		r = unicode.ToLower(r)
		switch {
		case r < 0x80:
			strip = true
			b.WriteRune(r)
		case accented(r):
			strip = true
			for _, d := range norm.NFD.String(string(r)) {
				if !unicode.Is(unicode.Mn, d) {
					b.WriteRune(d)
				}
			}
		case unicode.Is(unicode.Mn, r) && (strip || unicode.In(r, unicode.Arabic, unicode.Hebrew)):
		default:
			strip = false
			b.WriteRune(r)
		}
	}
	return plain.Replace(b.String())
}

// accented says whether marks on the letter are accents that people leave out. In other scripts a mark makes another letter (か and が).
func accented(r rune) bool { return unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) }

// Canonical is the form in which two statements are compared: folded, with white space made single. Punctuation stays: "a.b" and "ab" differ.
func Canonical(s string) string { return strings.Join(strings.Fields(Fold(s)), " ") }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
