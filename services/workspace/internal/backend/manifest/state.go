package manifest

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/google/btree"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// state is a space after an entry. A published state never changes; a clone, which costs next to nothing, may be built upon.
type state struct {
	at         Position
	generation string
	seq        int64 // changes so far
	usage      files.Usage
	nodes      *btree.BTreeG[*item]
	past       *btree.BTreeG[*revision]
	places     int64 // revisions kept so far
	whites     []string
	effects    *btree.BTreeG[effectRef]
	changes    *btree.BTreeG[files.Change] // the newest ones, by Seq
	loose      *btree.BTreeG[*loose]
	looseEnd   int64 // index of the next one
	packs      []pack
	base       int64     // entries up to here hold nothing: the space was forgotten after them
	pruned     int64     // entries up to here are gone
	orphans    time.Time // when chunks that no entry spoke of were looked for
	tended     time.Time // when the space was last tidied up
	weight     int64     // bytes that files, history and loose contents take in memory, about
}

// item is a file, or a directory that holds some.
type item struct {
	files.Node
	pieces   []piece
	hash     []byte // state of the SHA-256 of a large file
	children int    // of a directory
}

// revision is a previous revision of a file that is kept.
type revision struct {
	item
	place int64
}

// effectRef says which entry holds the outcome of an effect.
type effectRef struct {
	digest [16]byte
	entry  int64
}

// loose is content that was replaced: a sweep removes what nothing else refers to.
type loose struct {
	index  int64
	since  time.Time
	pieces []piece
}

// pack holds entries whose own objects go.
type pack struct {
	through     int64 // the last entry in it
	first, last int64 // changes in it: first > last when there are none
	time        time.Time
	pieces      []piece
}

const (
	degree = 32

	// maxRecent is how many changes a state holds in memory at most; older ones are read from entries and packs.
	maxRecent = 2000

	itemWeight = 450
)

func newState() *state {
	return &state{
		nodes: btree.NewG(degree, func(a, b *item) bool { return a.Path.Key() < b.Path.Key() }),
		past: btree.NewG(degree, func(a, b *revision) bool {
			if a.Path.Key() != b.Path.Key() {
				return a.Path.Key() < b.Path.Key()
			}
			return a.place > b.place // newest first
		}),
		effects: btree.NewG(degree, func(a, b effectRef) bool { return string(a.digest[:]) < string(b.digest[:]) }),
		changes: btree.NewG(degree, func(a, b files.Change) bool { return a.Cursor.Seq < b.Cursor.Seq }),
		loose:   btree.NewG(degree, func(a, b *loose) bool { return a.index < b.index }),
	}
}

// clone returns a state to build upon. Not to be called at the same time for one state.
func (s *state) clone() *state {
	c := *s
	c.nodes, c.past, c.effects, c.changes, c.loose = s.nodes.Clone(), s.past.Clone(), s.effects.Clone(), s.changes.Clone(), s.loose.Clone()
	return &c
}

// packed is the last entry that is in a pack, or that nobody needs.
func (s *state) packed() int64 {
	if n := len(s.packs); n > 0 {
		return s.packs[n-1].through
	}
	return s.base
}

// size is how much the state takes in memory, about.
func (s *state) size() int64 {
	return 1000 + s.weight + 60*int64(s.effects.Len()) + 300*int64(s.changes.Len())
}

// weigh is how much an item takes in memory, about.
func (it *item) weigh() int64 {
	return itemWeight + int64(2*len(it.Path.String())+len(it.Author)+len(it.hash)+24*len(it.pieces))
}

func digestOf(effect string) [16]byte {
	sum := sha256.Sum256([]byte(effect))
	return [16]byte(sum[:16])
}

// effectEntry is the entry that holds the outcome of an effect.
func (s *state) effectEntry(id string) (int64, bool) {
	ref, found := s.effects.Get(effectRef{digest: digestOf(id)})
	return ref.entry, found
}

// hasWhite says whether a key has a whiteout, and where it is or would be.
func (s *state) hasWhite(key string) (int, bool) { return slices.BinarySearch(s.whites, key) }

// each passes the items below a directory key ("" for the root) whose keys come after the key after, until f returns false. With deep false, only those directly below.
func (s *state) each(dir, after string, deep bool, f func(*item) bool) {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	from := max(prefix, after)
	for {
		skip := ""
		s.nodes.AscendGreaterOrEqual(pivot(from), func(it *item) bool {
			key := it.Path.Key()
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			if !deep {
				if i := strings.IndexByte(key[len(prefix):], '/'); i >= 0 {
					skip = key[:len(prefix)+i] + "0" // the first text after all that is below
					return false
				}
			}
			return key <= after || f(it)
		})
		if skip == "" {
			return
		}
		from = skip
	}
}
