package trigram

import (
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Query says which trigrams a file must hold to be a candidate. The zero query makes every file one.
type Query struct {
	// sets of ways: of each set, all trigrams of one way at least.
	sets [][]way
}

// way is the hashes of the trigrams of one text.
type way []uint32

// For returns the query for what a pattern needs.
func For(needs fsops.Needs) Query {
	var q Query
	for _, set := range needs {
		ways := make([]way, 0, len(set))
		for _, text := range set {
			w := hashes(text)
			if w == nil {
				ways = nil // a text without trigrams may stand anywhere
				break
			}
			ways = append(ways, w)
		}
		if ways != nil {
			q.sets = append(q.sets, ways)
		}
	}
	return q
}

// hashes are those of the trigrams of a text; nil when it is too short to have any.
func hashes(text string) way {
	folded := strings.Map(fsops.FoldRune, text)
	var out way
	for i := 0; i+3 <= len(folded); i++ {
		out = append(out, hashOf(uint32(folded[i])<<16|uint32(folded[i+1])<<8|uint32(folded[i+2])))
	}
	return out
}

// All says that the query rules nothing out.
func (q Query) All() bool { return len(q.sets) == 0 }

// May says whether a file of this signature may match.
func (q Query) May(s Signature) bool {
	_, filter, ok := s.parts()
	return !ok || q.may(filter)
}

func (q Query) may(filter []byte) bool {
	for _, ways := range q.sets {
		if !some(ways, filter) {
			return false
		}
	}
	return true
}

func some(ways []way, filter []byte) bool {
	for _, w := range ways {
		if w.in(filter) {
			return true
		}
	}
	return false
}

func (w way) in(filter []byte) bool {
	for _, h := range w {
		at := place(h, len(filter))
		if filter[at>>3]&(1<<(at&7)) == 0 {
			return false
		}
	}
	return true
}
