package manifest

import (
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// checkpointVersion is the first number of a checkpoint. A reader refuses others.
const checkpointVersion = 1

// encode gives the state as a checkpoint. Recent changes are not in it: entries and packs have them.
func (s *state) encode() []byte {
	var e encoder
	e.uint(checkpointVersion)
	e.int(s.at.Number)
	e.uint(s.at.Nonce)
	e.text(s.generation)
	e.int(s.seq)
	e.int(s.places)
	e.int(s.looseEnd)
	e.int(s.base)
	e.int(s.pruned)
	e.time(s.orphans)
	e.time(s.tended)
	e.uint(uint64(len(s.packs)))
	for _, p := range s.packs {
		e.int(p.through)
		e.int(p.first)
		e.int(p.last)
		e.time(p.time)
		e.pieces(p.pieces)
	}
	e.uint(uint64(len(s.whites)))
	for _, w := range s.whites {
		e.text(w)
	}
	e.uint(uint64(s.effects.Len()))
	s.effects.Ascend(func(r effectRef) bool {
		e.out = append(e.out, r.digest[:]...)
		e.int(r.entry)
		return true
	})
	e.uint(uint64(s.nodes.Len()))
	s.nodes.Ascend(func(it *item) bool { e.item(it); return true })
	e.uint(uint64(s.past.Len()))
	s.past.Ascend(func(r *revision) bool {
		e.item(&r.item)
		e.int(r.place)
		e.time(r.Replaced)
		e.bool(r.Removed)
		return true
	})
	e.uint(uint64(s.loose.Len()))
	s.loose.Ascend(func(l *loose) bool {
		e.int(l.index)
		e.time(l.since)
		e.pieces(l.pieces)
		return true
	})
	return seal(kindCheckpoint, e.out)
}

func (e *encoder) item(it *item) {
	e.text(it.Path.String())
	e.uint(uint64(it.Kind))
	if it.Kind == files.KindDir {
		e.time(it.ModTime)
		return
	}
	e.node(it.Node)
	e.pieces(it.pieces)
	e.bytes(it.hash)
}

func (d *decoder) item() *item {
	path := d.path()
	if path.IsRoot() {
		d.fail()
	}
	switch files.Kind(d.uint()) {
	case files.KindDir:
		return &item{Node: files.Node{Path: path, Kind: files.KindDir, Mode: 0o755, ModTime: d.time()}}
	case files.KindFile:
		it := &item{Node: d.node(path), pieces: d.pieces()}
		if h := d.bytes(); len(h) > 0 {
			it.hash = append([]byte(nil), h...)
		}
		if sizeOf(it.pieces) != it.Size {
			d.fail()
		}
		return it
	}
	d.fail()
	return &item{}
}

// decodeState reads a checkpoint.
func decodeState(data []byte) (*state, error) {
	body, err := unseal(kindCheckpoint, data)
	if err != nil {
		return nil, err
	}
	d := &decoder{in: body}
	if d.uint() != checkpointVersion {
		return nil, errDamaged("version of a checkpoint")
	}
	s := newState()
	s.at = Position{Number: d.int(), Nonce: d.uint()}
	s.generation = d.text()
	s.seq, s.places, s.looseEnd, s.base, s.pruned = d.int(), d.int(), d.int(), d.int(), d.int()
	s.orphans, s.tended = d.time(), d.time()
	for range d.count() {
		s.packs = append(s.packs, pack{through: d.int(), first: d.int(), last: d.int(), time: d.time(), pieces: d.pieces()})
	}
	for range d.count() {
		s.whites = append(s.whites, d.text())
	}
	s.usage.Whiteouts = int64(len(s.whites))
	for range d.count() {
		s.effects.ReplaceOrInsert(effectRef{digest: [16]byte(append(make([]byte, 0, 16), d.take(16)...)[:16]), entry: d.int()})
	}
	s.decodeFiles(d)
	for range d.count() {
		l := &loose{index: d.int(), since: d.time(), pieces: d.pieces()}
		s.loose.ReplaceOrInsert(l)
		s.weight += int64(64 + 24*len(l.pieces))
	}
	if d.bad || len(d.in) > 0 || s.at.Number < 1 || !s.sound() {
		return nil, errDamaged("checkpoint")
	}
	return s, nil
}

// decodeFiles reads the tree and the history.
func (s *state) decodeFiles(d *decoder) {
	parents := map[string]int{}
	for range d.count() {
		it := d.item()
		if d.bad {
			return
		}
		if dir := it.Path.Parent(); !dir.IsRoot() {
			parents[dir.Key()]++
		}
		if it.Kind == files.KindFile {
			s.usage.Files++
			s.usage.Bytes += it.Size
		}
		s.weight += it.weigh()
		s.nodes.ReplaceOrInsert(it)
	}
	for key, children := range parents {
		dir := s.lookUp(fsops.PathOf(key))
		if dir == nil || dir.Kind != files.KindDir {
			d.fail()
			return
		}
		dir.children = children // nobody else has the item yet
	}
	for range d.count() {
		r := &revision{item: *d.item(), place: d.int()}
		r.Replaced, r.Removed = d.time(), d.bool()
		if d.bad {
			return
		}
		s.weight += r.weigh()
		s.past.ReplaceOrInsert(r)
	}
}

// sound says whether what a checkpoint holds fits together: every directory holds something.
func (s *state) sound() bool {
	ok := true
	s.nodes.Ascend(func(it *item) bool {
		ok = it.Kind == files.KindFile || it.children > 0
		return ok
	})
	return ok
}
