package manifest

import (
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// applyEntry builds the next state. note gets every file that is replaced; nil: nobody wants them.
func (s *state) applyEntry(n *entry, note func(*item)) error {
	if n.at.Number != s.at.Number+1 || n.after != s.at.Nonce {
		return errDamaged("order of entries")
	}
	s.begin(n)
	for i := range n.ops {
		if err := s.apply(&n.ops[i], n.time, note); err != nil {
			return err
		}
	}
	return nil
}

// begin takes the place of an entry.
func (s *state) begin(n *entry) {
	s.at, s.generation = n.at, n.generation
	if s.orphans.IsZero() {
		s.orphans, s.tended = n.time, n.time
	}
}

// apply carries out one operation.
func (s *state) apply(o *op, now time.Time, note func(*item)) error {
	if o.kind <= opRename && o.path.IsRoot() {
		return errDamaged("path")
	}
	switch o.kind {
	case opPut, opExtend, opRemove, opRename:
		return s.applyFile(o, now, note)
	case opWhite:
		if i, found := s.hasWhite(o.path.Key()); !found {
			s.whites = slices.Insert(slices.Clip(s.whites), i, o.path.Key())
			s.usage.Whiteouts++
		}
	case opUnwhite:
		if i, found := s.hasWhite(o.path.Key()); found {
			s.whites = slices.Concat(s.whites[:i], s.whites[i+1:])
			s.usage.Whiteouts--
		}
	case opDrop:
		s.dropPast(o.path, o.number, now)
	case opMark:
		if r := s.newest(o.path); r != nil {
			marked := *r
			marked.Removed = o.removed
			s.past.ReplaceOrInsert(&marked)
		}
	case opAged:
		s.agePast(o.when, now)
	case opLog:
		s.seq++
		c := o.change
		c.Cursor, c.Time = files.Cursor{Generation: s.generation, Seq: s.seq}, now
		s.changes.ReplaceOrInsert(c)
		for s.changes.Len() > maxRecent {
			s.changes.DeleteMin()
		}
	case opEffect:
		s.effects.ReplaceOrInsert(effectRef{digest: digestOf(o.effect.ID), entry: s.at.Number})
	case opForget:
		at, pruned := s.at, s.pruned
		*s = *newState()
		s.at, s.generation, s.base, s.pruned = at, o.name, at.Number-1, pruned
	default:
		return s.applyTidy(o, now)
	}
	return nil
}

// applyTidy carries out the operations of tidying up.
func (s *state) applyTidy(o *op, now time.Time) error {
	s.tended = now
	switch o.kind {
	case opPacked:
		if o.number <= s.packed() || o.number >= s.at.Number {
			return errDamaged("packs")
		}
		s.packs = append(slices.Clip(s.packs), pack{through: o.number, first: o.first, last: o.last, time: o.when, pieces: o.pieces})
	case opUnpacked:
		if o.number < 1 || o.number > int64(len(s.packs)) {
			return errDamaged("packs")
		}
		gone := s.packs[:o.number]
		s.packs = slices.Clone(s.packs[o.number:])
		for _, p := range gone {
			s.loosen(p.pieces, now)
		}
		s.dropEffects(gone[len(gone)-1].through)
	case opSwept:
		for l, some := s.loose.Min(); some && l.index < o.number; l, some = s.loose.Min() {
			s.loose.DeleteMin()
			s.weight -= int64(64 + 24*len(l.pieces))
		}
	case opPruned:
		s.pruned = max(s.pruned, o.number)
	case opOrphansSwept:
		s.orphans = o.when
	default:
		return errDamaged("operation")
	}
	return nil
}

// dropEffects forgets the effects of the entries up to one.
func (s *state) dropEffects(through int64) {
	var gone []effectRef
	s.effects.Ascend(func(r effectRef) bool {
		if r.entry <= through {
			gone = append(gone, r)
		}
		return true
	})
	for _, r := range gone {
		s.effects.Delete(r)
	}
}

// loosen leaves content to the sweep.
func (s *state) loosen(pieces []piece, now time.Time) {
	if len(pieces) == 0 {
		return
	}
	s.loose.ReplaceOrInsert(&loose{index: s.looseEnd, since: now, pieces: pieces})
	s.looseEnd++
	s.weight += int64(64 + 24*len(pieces))
}

// applyFile carries out an operation on a file.
func (s *state) applyFile(o *op, now time.Time, note func(*item)) error {
	source := o.path
	if o.kind == opRename {
		source = o.from
	}
	old := s.file(source)
	if old == nil && o.kind != opPut {
		return errDamaged("operation on a file that is not there")
	}
	if old != nil && note != nil {
		note(old)
	}
	if o.kind == opRemove {
		s.retire(old, o.kept, true, old.pieces, now)
		s.take(old)
		return nil
	}
	next := &item{Node: o.node, pieces: o.pieces, hash: slices.Clone(o.hash)} // the operation may share memory with its whole entry
	next.Path, next.Kind, next.Ref = o.path, files.KindFile, next.Revision
	switch o.kind {
	case opPut:
		if old != nil {
			s.retire(old, o.kept, false, old.pieces, now)
		}
	case opExtend:
		if o.keep > len(old.pieces) {
			return errDamaged("pieces")
		}
		next.pieces = slices.Concat(old.pieces[:o.keep], o.pieces)
		s.retire(old, o.kept, false, old.pieces[o.keep:], now)
	case opRename:
		away := o.from.Key() != o.path.Key()
		next.pieces, next.hash = old.pieces, old.hash
		s.retire(old, o.kept, away, nil, now)
		if away {
			s.take(old)
			if target := s.file(o.path); target != nil {
				if note != nil {
					note(target)
				}
				s.retire(target, o.kept2, false, target.pieces, now)
			}
		}
	}
	if sizeOf(next.pieces) != next.Size {
		return errDamaged("size of a file")
	}
	return s.put(next, now)
}

// retire makes a file that is replaced a previous revision, or leaves the pieces that nothing goes on with to the sweep.
func (s *state) retire(old *item, kept, removed bool, pieces []piece, now time.Time) {
	if !kept {
		s.loosen(pieces, now)
		return
	}
	r := &revision{item: *old, place: s.places}
	r.Replaced, r.Removed = now, removed
	s.places++
	s.past.ReplaceOrInsert(r)
	s.weight += r.weigh()
}

func pivot(key string) *item { return &item{Node: files.Node{Path: fsops.PathOf(key)}} }

// at returns what has a key; nil when nothing has.
func (s *state) lookUp(p fsops.Path) *item {
	it, _ := s.nodes.Get(&item{Node: files.Node{Path: p}})
	return it
}

// file is lookUp for files only.
func (s *state) file(p fsops.Path) *item {
	if it := s.lookUp(p); it != nil && it.Kind == files.KindFile {
		return it
	}
	return nil
}

// put puts a file into place, and the directories above it.
func (s *state) put(it *item, now time.Time) error {
	old := s.lookUp(it.Path)
	switch {
	case old == nil:
		s.usage.Files++
		if err := s.addDirs(it.Path, now); err != nil {
			return err
		}
	case old.Kind != files.KindFile:
		return errDamaged("file in the place of a directory")
	default:
		s.usage.Bytes -= old.Size
		s.weight -= old.weigh()
	}
	s.usage.Bytes += it.Size
	s.weight += it.weigh()
	s.nodes.ReplaceOrInsert(it)
	return nil
}

// addDirs counts a new path in the directory above it, making that and those further up if need be.
func (s *state) addDirs(p fsops.Path, now time.Time) error {
	for dir := p.Parent(); !dir.IsRoot(); dir = dir.Parent() {
		next := item{Node: files.Node{Path: dir, Kind: files.KindDir, Mode: 0o755, ModTime: now}}
		old := s.lookUp(dir)
		if old != nil {
			next = *old
		}
		if next.Kind != files.KindDir {
			return errDamaged("file below a file")
		}
		next.children++
		s.nodes.ReplaceOrInsert(&next)
		if old != nil {
			return nil
		}
		s.weight += next.weigh()
	}
	return nil
}

// take removes a file, and the directories above that have nothing left.
func (s *state) take(it *item) {
	s.usage.Files--
	s.usage.Bytes -= it.Size
	s.weight -= it.weigh()
	s.nodes.Delete(it)
	for dir := it.Path.Parent(); !dir.IsRoot(); dir = dir.Parent() {
		old := s.lookUp(dir)
		if old == nil {
			return
		}
		if old.children > 1 {
			next := *old
			next.children--
			s.nodes.ReplaceOrInsert(&next)
			return
		}
		s.weight -= old.weigh()
		s.nodes.Delete(old)
	}
}
