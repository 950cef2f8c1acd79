package fsops

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// finder finds the places where one of a few texts may stand. It compares two bytes of each text, the rarest ones, at eight places at once: fast enough to be hidden
// behind the reading of the files, whatever the texts, with regard to case or without.
type finder struct {
	fold  bool // ASCII letters of either case are equal; texts are in lower case
	texts []wanted
	reach int // how many bytes after a place are looked at for the two
}

// wanted is one text of a finder.
type wanted struct {
	text         []byte
	at1, at2     int    // where in the text the two bytes stand
	byte1, byte2 uint64 // eight times each
	mask1, mask2 uint64 // what makes letters lower case; 0 for other bytes
	worth        int
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	// maxWanted is how many texts are worth to be looked for one by one.
	maxWanted = 6
)

// common orders bytes by how often they are met in text and code, rarest last.
const common = " etaoinsrlcdup\nhmfg_.,()y\tb\"=;-v:w/'0x1k{}<>j2*[]qz"

// rarity ranks a byte, the rarest highest.
func rarity(c byte) int {
	if i := bytes.IndexByte([]byte(common), c); i >= 0 {
		return i
	}
	return len(common) + 4
}

// worthIt is the least worth of a text that is looked for before an expression: below it, nearly every line holds it.
const worthIt = 20

// newFinder makes a finder of the set of needs that is worth most; nil when none is.
func newFinder(needs Needs, worth int, fold, composed bool) *finder {
	var best *finder
	for _, set := range needs {
		if len(set) > maxWanted {
			continue
		}
		f := &finder{fold: fold}
		least := 1 << 10
		for _, text := range set {
			w := newWanted(plainest(text, fold, composed), fold)
			f.texts = append(f.texts, w)
			f.reach = max(f.reach, w.at1, w.at2)
			least = min(least, w.worth)
		}
		if least -= 2 * (len(set) - 1); least >= worth {
			best, worth = f, least
		}
	}
	return best
}

// plainest returns the part of a text that a matching line holds byte for byte, apart from the case of ASCII letters; of several the one worth most.
func plainest(text string, fold, composed bool) []byte {
	plain := func(c byte) bool {
		switch {
		case c >= utf8.RuneSelf:
			return !composed && !fold
		case composed && (c == 'K' || c == '`' || c == ';'):
			return false // each has a twin beyond ASCII that NFC replaces
		case fold && (c == 'k' || c == 's'):
			return false // U+212A and U+017F fold to them
		}
		return true
	}
	var best []byte
	worth := 0
	for rest := []byte(text); len(rest) > 0; {
		start := slices.IndexFunc(rest, plain)
		if start < 0 {
			break
		}
		rest = rest[start:]
		end := slices.IndexFunc(rest, func(c byte) bool { return !plain(c) })
		if end < 0 {
			end = len(rest)
		}
		if w := newWanted(rest[:end], fold).worth; w > worth {
			best, worth = rest[:end], w
		}
		rest = rest[end:]
	}
	return best
}

func newWanted(text []byte, fold bool) wanted {
	w := wanted{text: text}
	if len(text) == 0 {
		return w
	}
	for i := range text {
		if rarity(text[i]) > rarity(text[w.at1]) {
			w.at1 = i
		}
	}
	w.at2 = w.at1
	// Neighbours tend to come together, so that the second says little beside the first.
	second := func(i int) int {
		if i == w.at1+1 || i == w.at1-1 {
			return rarity(text[i]) - 10
		}
		return rarity(text[i])
	}
	for i := range text {
		if i != w.at1 && (w.at2 == w.at1 || second(i) > second(w.at2)) {
			w.at2 = i
		}
	}
	w.worth = rarity(text[w.at1]) + 4*min(len(text), 6)
	if w.at2 != w.at1 {
		w.worth += rarity(text[w.at2])
	}
	w.byte1, w.mask1 = eightOf(text[w.at1], fold)
	w.byte2, w.mask2 = eightOf(text[w.at2], fold)
	return w
}

func eightOf(c byte, fold bool) (eight, mask uint64) {
	if fold && 'a' <= c && c <= 'z' {
		mask = 0x20 * lowBits
	}
	return uint64(c) * lowBits, mask
}

const (
	// finderStep is how many places are looked at together.
	finderStep = 32
	// finderTurn is how far one text is looked for before the next one is.
	finderTurn = 16 * finderStep
)

// index returns the first place at or after from where one of the texts stands, or -1.
func (f *finder) index(data []byte, from int) int {
	i, limit := from, len(data)-f.reach-finderStep
	for i <= limit {
		end := limit + 1
		if len(f.texts) > 1 {
			end = min(end, i+finderTurn)
		}
		near := end
		for t := range f.texts {
			near = f.texts[t].near(data, i, near)
		}
		if near == end {
			i += (end - i + finderStep - 1) / finderStep * finderStep
			continue
		}
		if at := f.among(data, near); at >= 0 {
			return at
		}
		i = near + finderStep
	}
	return f.slowly(data, i)
}

// near returns the first of the places i, i+32, … before end that has, among the 32 places from there on, one where both bytes may stand; end for none.
func (w *wanted) near(data []byte, i, end int) int {
	for ; i < end; i += finderStep {
		p, q := data[i+w.at1:i+w.at1+finderStep], data[i+w.at2:i+w.at2+finderStep]
		a := ((binary.LittleEndian.Uint64(p) | w.mask1) ^ w.byte1) | ((binary.LittleEndian.Uint64(q) | w.mask2) ^ w.byte2)
		b := ((binary.LittleEndian.Uint64(p[8:]) | w.mask1) ^ w.byte1) | ((binary.LittleEndian.Uint64(q[8:]) | w.mask2) ^ w.byte2)
		c := ((binary.LittleEndian.Uint64(p[16:]) | w.mask1) ^ w.byte1) | ((binary.LittleEndian.Uint64(q[16:]) | w.mask2) ^ w.byte2)
		d := ((binary.LittleEndian.Uint64(p[24:]) | w.mask1) ^ w.byte1) | ((binary.LittleEndian.Uint64(q[24:]) | w.mask2) ^ w.byte2)
		if ((a-lowBits)&^a|(b-lowBits)&^b|(c-lowBits)&^c|(d-lowBits)&^d)&highBits != 0 {
			return i
		}
	}
	return end
}

// in marks the places among the first eight where both bytes may stand. The first mark is always right, later ones may be wrong.
func (w *wanted) in(p, q []byte) uint64 {
	x := ((binary.LittleEndian.Uint64(p) | w.mask1) ^ w.byte1) | ((binary.LittleEndian.Uint64(q) | w.mask2) ^ w.byte2)
	return (x - lowBits) &^ x & highBits
}

// among returns the first of the 32 places from i on where a text stands, or -1.
func (f *finder) among(data []byte, i int) int {
	for end := i + finderStep; i < end; i += 8 {
		var found uint64
		for t := range f.texts {
			w := &f.texts[t]
			found |= w.in(data[i+w.at1:], data[i+w.at2:])
		}
		for ; found != 0; found &= found - 1 {
			if at := i + bits.TrailingZeros64(found)/8; f.stands(data, at) {
				return at
			}
		}
	}
	return -1
}

// slowly is index for the last few bytes.
func (f *finder) slowly(data []byte, from int) int {
	for i := from; i < len(data); i++ {
		if f.stands(data, i) {
			return i
		}
	}
	return -1
}

// stands says whether a text stands at a place.
func (f *finder) stands(data []byte, at int) bool {
	for t := range f.texts {
		text := f.texts[t].text
		if len(data)-at < len(text) {
			continue
		}
		have := data[at : at+len(text)]
		if !f.fold && bytes.Equal(have, text) || f.fold && equalFold(have, text) {
			return true
		}
	}
	return false
}

// equalFold compares ASCII text with text in lower case.
func equalFold(have, lower []byte) bool {
	for i, c := range have {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
