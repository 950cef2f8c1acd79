package manifest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
)

const (
	// chunkBytes is the size of a full chunk.
	chunkBytes = 1 << 20
	// smallPiece is the size below which pieces at the end of a file that is appended to are joined now and then.
	smallPiece = 256 << 10
	// smallPieces is how many of them a file may end with.
	smallPieces = 32
)

// tag is what the names of all chunks of one generation of a space begin with, so that those of a forgotten one are told apart.
type tag [4]byte

func tagOf(generation string) tag {
	sum := sha256.Sum256([]byte(generation))
	return tag(sum[:4])
}

// piece is a part of a file's content: a chunk, whole.
type piece struct {
	id    [16]byte // the tag, then random bytes
	index uint32
	size  uint32
}

// newPieces returns pieces of a new name for content of a size.
func newPieces(t tag, size int64) []piece {
	var id [16]byte
	rand.Read(id[:])
	copy(id[:], t[:])
	out := make([]piece, 0, (size+chunkBytes-1)/chunkBytes)
	for i := uint32(0); size > 0; i++ {
		n := min(size, chunkBytes)
		out = append(out, piece{id: id, index: i, size: uint32(n)})
		size -= n
	}
	return out
}

var chunkNames = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// name of the chunk.
func (p piece) name() string {
	return chunkNames.EncodeToString(p.id[:]) + "." + strconv.FormatUint(uint64(p.index), 10)
}

// tagOfName reads the tag from the name of a chunk.
func tagOfName(name string) (tag, bool) {
	id, _, _ := strings.Cut(name, ".")
	raw, err := chunkNames.DecodeString(id)
	if err != nil || len(raw) != 16 {
		return tag{}, false
	}
	return tag(raw[:4]), true
}

func sizeOf(pieces []piece) (n int64) {
	for _, p := range pieces {
		n += int64(p.size)
	}
	return n
}

func (e *encoder) pieces(pieces []piece) {
	e.uint(uint64(len(pieces)))
	for _, p := range pieces {
		e.out = append(e.out, p.id[:]...)
		e.uint(uint64(p.index))
		e.uint(uint64(p.size))
	}
}

func (d *decoder) pieces() []piece {
	n := d.count()
	if n == 0 {
		return nil
	}
	out := make([]piece, 0, min(n, 4096))
	for range n {
		var p piece
		copy(p.id[:], d.take(16))
		p.index, p.size = uint32(d.uint()), uint32(d.uint())
		if d.bad || p.size == 0 || p.size > chunkBytes {
			d.fail()
			return nil
		}
		out = append(out, p)
	}
	return out
}
