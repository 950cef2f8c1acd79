package manifest

import (
	"encoding/hex"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// opKind is what an operation does. Numbers are part of what is stored: they are never used for something else.
type opKind uint8

const (
	opPut          opKind = iota + 1 // the file at path has new content
	opExtend                         // … the first keep pieces that it had, and more
	opRemove                         // the file at path goes
	opRename                         // the file at from goes on at path
	opWhite                          // path gets a whiteout
	opUnwhite                        // … has none any more
	opDrop                           // the oldest number previous revisions of path are kept no more
	opMark                           // whether something took the place of the newest previous revision of path: removed
	opLog                            // an entry of the change log
	opEffect                         // the outcome of an effect
	opPacked                         // entries up to number are in a pack
	opUnpacked                       // the oldest number packs are needed no more
	opSwept                          // loose contents before number are gone
	opPruned                         // entries up to number are gone
	opAged                           // previous revisions that were replaced before when are kept no more
	opOrphansSwept                   // chunks that no entry spoke of were looked for
	opForget                         // everything goes; the space has a new generation
)

// op is one operation of an entry. Applying the operations of all entries in order gives the state; whatever a policy or a clock decides is decided by who writes them.
type op struct {
	kind   opKind
	path   fsops.Path
	from   fsops.Path
	node   files.Node // of a file: all but its path and kind
	pieces []piece
	hash   []byte // state of the SHA-256 of a large file
	keep   int
	kept   bool  // what the path held becomes a previous revision
	kept2  bool  // opRename: what path held before
	number int64 // opEffect: changes of the space up to it
	first  int64 // opPacked: first change in the pack
	last   int64 // … and last
	when   time.Time

	removed bool
	change  files.Change
	effect  files.Effect
	outcome []byte
	name    string // opForget: the generation
}

// entry is what one or several updates changed.
type entry struct {
	at         Position
	after      uint64 // nonce of the entry before
	time       time.Time
	generation string
	ops        []op
}

func (n *encoder) node(v files.Node) {
	n.int(v.Size)
	n.time(v.ModTime)
	n.text(v.Revision)
	sum, err := hex.DecodeString(v.SHA256)
	if err != nil {
		sum = nil
	}
	n.bytes(sum)
	n.uint(uint64(v.Mode))
	n.text(v.Author)
}

func (d *decoder) node(path fsops.Path) files.Node {
	v := files.Node{Path: path, Kind: files.KindFile}
	v.Size = d.int()
	v.ModTime = d.time()
	v.Revision = d.text()
	v.SHA256 = hex.EncodeToString(d.bytes())
	v.Mode = uint32(d.uint())
	v.Author = d.text()
	v.Ref = v.Revision
	return v
}

func (e *encoder) op(o *op) {
	e.uint(uint64(o.kind))
	switch o.kind {
	case opPut, opExtend:
		e.text(o.path.String())
		e.node(o.node)
		e.pieces(o.pieces)
		e.bytes(o.hash)
		e.bool(o.kept)
		e.uint(uint64(o.keep))
	case opRemove:
		e.text(o.path.String())
		e.bool(o.kept)
	case opRename:
		e.text(o.from.String())
		e.text(o.path.String())
		e.node(o.node)
		e.bool(o.kept)
		e.bool(o.kept2)
	case opWhite, opUnwhite:
		e.text(o.path.String())
	case opDrop:
		e.text(o.path.String())
		e.int(o.number)
	case opMark:
		e.text(o.path.String())
		e.bool(o.removed)
	case opLog:
		e.uint(uint64(o.change.Kind))
		e.text(o.change.Path.String())
		e.text(o.change.From.String())
		e.text(o.change.Revision)
		e.text(o.change.Author)
	case opEffect:
		e.text(o.effect.ID)
		e.text(o.effect.Hash)
		e.bytes(o.outcome)
		e.int(o.number)
	case opPacked:
		e.int(o.number)
		e.int(o.first)
		e.int(o.last)
		e.time(o.when)
		e.pieces(o.pieces)
	case opUnpacked, opSwept, opPruned:
		e.int(o.number)
	case opAged, opOrphansSwept:
		e.time(o.when)
	case opForget:
		e.text(o.name)
	}
}

func (d *decoder) op() (o op) {
	o.kind = opKind(d.uint())
	switch o.kind {
	case opPut, opExtend:
		o.path = d.path()
		o.node = d.node(o.path)
		o.pieces = d.pieces()
		o.hash = d.bytes()
		o.kept = d.bool()
		o.keep = int(d.uint() % (1 << 31))
	case opRemove:
		o.path = d.path()
		o.kept = d.bool()
	case opRename:
		o.from = d.path()
		o.path = d.path()
		o.node = d.node(o.path)
		o.kept = d.bool()
		o.kept2 = d.bool()
	case opWhite, opUnwhite:
		o.path = d.path()
	case opDrop:
		o.path = d.path()
		o.number = d.int()
	case opMark:
		o.path = d.path()
		o.removed = d.bool()
	case opLog:
		o.change.Kind = files.ChangeKind(d.uint())
		o.change.Path = d.path()
		o.change.From = d.path()
		o.change.Revision = d.text()
		o.change.Author = d.text()
	case opEffect:
		o.effect.ID = d.text()
		o.effect.Hash = d.text()
		o.outcome = d.bytes()
		o.number = d.int()
	case opPacked:
		o.number = d.int()
		o.first = d.int()
		o.last = d.int()
		o.when = d.time()
		o.pieces = d.pieces()
	case opUnpacked, opSwept, opPruned:
		o.number = d.int()
	case opAged, opOrphansSwept:
		o.when = d.time()
	case opForget:
		o.name = d.text()
	default:
		d.fail()
	}
	return o
}

// encode gives the entry as it is stored.
func (n *entry) encode() []byte {
	var e encoder
	e.int(n.at.Number)
	e.uint(n.at.Nonce)
	e.uint(n.after)
	e.time(n.time)
	e.text(n.generation)
	e.uint(uint64(len(n.ops)))
	for i := range n.ops {
		e.op(&n.ops[i])
	}
	return seal(kindEntry, e.out)
}

// decodeEntry reads a stored entry. What it returns may share memory with data.
func decodeEntry(data []byte) (*entry, error) {
	body, err := unseal(kindEntry, data)
	if err != nil {
		return nil, err
	}
	d := decoder{in: body}
	n := &entry{at: Position{Number: d.int(), Nonce: d.uint()}, after: d.uint(), time: d.time(), generation: d.text()}
	for range d.count() {
		n.ops = append(n.ops, d.op())
	}
	if d.bad || len(d.in) > 0 || n.at.Number < 1 {
		return nil, errDamaged("entry")
	}
	return n, nil
}
