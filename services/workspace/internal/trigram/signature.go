package trigram

import (
	"math/bits"
	"sync"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/fsops"
	"golang.org/x/text/unicode/norm"
)

const (
	// MaxBytes is the size up to which contents get a signature. Larger files are always candidates.
	MaxBytes = 256 << 10

	// hashBits is how many bits of the hash of a trigram count. It bounds a signature to 32 KiB.
	hashBits = 18
	// perTrigram is how many bits a signature has for each trigram: with four, a fifth of the bits are set.
	perTrigram = 4
	minBits    = 256
	// tailBytes is how much of the end of a content a signature keeps, so that an append needs no other look at it. It holds the longest run of combining marks
	// that normalization joins.
	tailBytes = 128
	// version of the form of signatures. One of another version says nothing.
	version = 1
)

// Signature is a version, the length of the tail, the tail, and the bits. Nil: nothing is known, so the file is a candidate.
type Signature []byte

// Of returns the signature of a content; nil when that is over [MaxBytes].
func Of(content []byte) Signature {
	if len(content) > MaxBytes {
		return nil
	}
	return build(content, perTrigram)
}

// Roomy is Of with room for as many trigrams again: for contents that grow.
func Roomy(content []byte) Signature {
	if len(content) > MaxBytes {
		return nil
	}
	return build(content, 2*perTrigram)
}

// Append returns the signature of a content to which data is added. False: it would be too full to be of use, so it is to be made anew from the whole content, by [Roomy].
func (s Signature) Append(data []byte) (Signature, bool) {
	tail, filter, ok := s.parts()
	if !ok {
		return nil, true
	}
	joined := append(append(make([]byte, 0, len(tail)+len(data)), tail...), data...)
	set := sets.Get().(*set)
	defer set.put()
	set.add(joined)
	out := newSignature(joined, len(filter))
	_, added, _ := out.parts()
	copy(added, filter)
	set.fold(added)
	count := 0
	for _, b := range added {
		count += bits.OnesCount8(b)
	}
	return out, count <= 4*len(added)
}

// parts returns the tail and the bits.
func (s Signature) parts() (tail, filter []byte, ok bool) {
	if len(s) < 2 || s[0] != version || len(s) < 2+int(s[1])+minBits/8 {
		return nil, nil, false
	}
	n := 2 + int(s[1])
	return s[2:n], s[n:], true
}

// newSignature makes an empty one.
func newSignature(content []byte, filterBytes int) Signature {
	tail := content[max(0, len(content)-tailBytes):]
	out := make(Signature, 2+len(tail)+filterBytes)
	out[0], out[1] = version, byte(len(tail))
	copy(out[2:], tail)
	return out
}

func build(content []byte, room int) Signature {
	set := sets.Get().(*set)
	defer set.put()
	set.add(content)
	size := min(max(set.count()*room, minBits), 1<<hashBits)
	out := newSignature(content, (size+7)/8)
	_, filter, _ := out.parts()
	set.fold(filter)
	return out
}

// set is the hashes of the trigrams of a content.
type set [1 << hashBits / 64]uint64

var sets = sync.Pool{New: func() any { return new(set) }}

func (s *set) put() {
	clear(s[:])
	sets.Put(s)
}

func (s *set) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// fold sets the bits of a filter of any length.
func (s *set) fold(filter []byte) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			at := place(uint32(i<<6|bits.TrailingZeros64(w)), len(filter))
			filter[at>>3] |= 1 << (at & 7)
		}
	}
}

// place is the bit of a filter for a hash.
func place(hash uint32, filterBytes int) uint32 {
	return uint32(uint64(hash) * uint64(filterBytes) * 8 >> hashBits)
}

func hashOf(trigram uint32) uint32 { return trigram * 0x9E3779B1 >> (32 - hashBits) }

// add takes in the trigrams of a content: as it is and, where it is not in NFC, in NFC too, since searches compare either.
func (s *set) add(content []byte) {
	s.addForm(content)
	if !norm.NFC.IsNormal(content) {
		s.addForm(norm.NFC.Bytes(content))
	}
}

func (s *set) addForm(content []byte) {
	var last uint32
	have := 0
	put := func(c byte) {
		if c == '\n' {
			have = 0
			return
		}
		last = (last<<8 | uint32(c)) & 0xFFFFFF
		if have++; have >= 3 {
			h := hashOf(last)
			s[h>>6] |= 1 << (h & 63)
		}
	}
	for i := 0; i < len(content); {
		c := content[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			put(c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(content[i:])
		if r == utf8.RuneError && n == 1 {
			put(c)
			i++
			continue
		}
		var folded [utf8.UTFMax]byte
		for _, c := range folded[:utf8.EncodeRune(folded[:], fsops.FoldRune(r))] {
			put(c)
		}
		i += n
	}
}
