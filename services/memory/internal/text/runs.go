package text

import (
	"unicode"
	"unicode/utf8"
)

// runKind tells how a run of characters is cut into terms.
type runKind uint8

const (
	runWord   runKind = iota // letters and digits of scripts that put spaces between words
	runDense                 // characters of scripts that don't
	runHangul                // words with particles: a word, and characters as well
	runSymbol                // one symbol, such as an emoji
)

// run is a piece of text of one kind, by byte positions.
type run struct {
	kind       runKind
	start, end int
}

// dense are the scripts without spaces between words.
var dense = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Bopomofo}

// kindOf classifies one character; ok is false for what is in no run.
func kindOf(r rune) (kind runKind, ok bool) {
	switch {
	case r < 0x80:
		return runWord, r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	case unicode.Is(unicode.Hangul, r):
		return runHangul, true
	case r == 'ー' || r == '々' || unicode.In(r, dense...):
		return runDense, true
	case unicode.IsLetter(r) || unicode.IsNumber(r):
		return runWord, true
	case unicode.Is(unicode.So, r):
		return runSymbol, true
	}
	return 0, false
}

// runs calls yield for each run of s in order, until yield returns false.
func runs(s string, yield func(run) bool) {
	cur := run{start: -1}
	flush := func() bool {
		ok := cur.start < 0 || yield(cur)
		cur.start = -1
		return ok
	}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		kind, ok := kindOf(r)
		mark := unicode.Is(unicode.M, r) || r == 0x200d
		switch {
		case mark && cur.start >= 0:
			cur.end = i + size
		case !ok && apostrophe(r) && cur.start >= 0 && cur.kind == runWord && letterAt(s, i+size):
			cur.end = i + size
		case !ok:
			if !flush() {
				return
			}
		case cur.start >= 0 && cur.kind == kind && kind != runSymbol:
			cur.end = i + size
		default:
			if !flush() {
				return
			}
			cur = run{kind, i, i + size}
		}
		i += size
	}
	flush()
}

func apostrophe(r rune) bool { return r == '\'' || r == '’' }

// letterAt says whether the text goes on with a letter: "don't", but not "the dogs' ".
func letterAt(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return unicode.IsLetter(r)
}
