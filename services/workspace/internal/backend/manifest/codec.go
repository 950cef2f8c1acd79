package manifest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// Everything stored begins with a magic, the kind, and a checksum of the rest.
const (
	magic       = "gwm1"
	headerBytes = len(magic) + 1 + 4

	kindEntry      = 'e'
	kindLargeEntry = 'E' // compressed
	kindCheckpoint = 'c' // compressed
	kindPack       = 'p' // compressed

	// largeEntry is the size from which on an entry is compressed.
	largeEntry = 64 << 10

	// maxUnpacked bounds what a compressed record may become: damaged ones must not take all memory.
	maxUnpacked = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func errDamaged(what string) error {
	return errdefs.New(errdefs.ErrDataLoss, fsops.Domain, "", "the store holds a damaged record (%s)", what).With("record", what)
}

// seal makes a stored record of a body.
func seal(kind byte, body []byte) []byte {
	if kind == kindEntry && len(body) >= largeEntry {
		kind = kindLargeEntry
	}
	if kind != kindEntry {
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, flate.BestSpeed) // the level is a valid one
		_, _ = w.Write(body)                              // a buffer takes everything
		_ = w.Close()
		body = packed.Bytes()
	}
	out := make([]byte, 0, headerBytes+len(body))
	out = append(out, magic...)
	out = append(out, kind)
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(body, castagnoli))
	return append(out, body...)
}

// unseal checks a stored record and returns its body.
func unseal(kind byte, data []byte) ([]byte, error) {
	if len(data) < headerBytes || string(data[:len(magic)]) != magic {
		return nil, errDamaged("header")
	}
	if kind == kindEntry && data[len(magic)] == kindLargeEntry {
		kind = kindLargeEntry
	}
	if data[len(magic)] != kind {
		return nil, errDamaged("kind")
	}
	body := data[headerBytes:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(data[len(magic)+1:]) {
		return nil, errDamaged("checksum")
	}
	if kind == kindEntry {
		return body, nil
	}
	out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), maxUnpacked+1))
	if err != nil || len(out) > maxUnpacked {
		return nil, errDamaged("compression")
	}
	return out, nil
}

// encoder appends values.
type encoder struct{ out []byte }

func (e *encoder) uint(v uint64)  { e.out = binary.AppendUvarint(e.out, v) }
func (e *encoder) int(v int64)    { e.out = binary.AppendVarint(e.out, v) }
func (e *encoder) bytes(v []byte) { e.uint(uint64(len(v))); e.out = append(e.out, v...) }
func (e *encoder) text(v string)  { e.uint(uint64(len(v))); e.out = append(e.out, v...) }

func (e *encoder) bool(v bool) {
	if v {
		e.uint(1)
	} else {
		e.uint(0)
	}
}

func (e *encoder) time(v time.Time) {
	if v.IsZero() {
		e.int(0)
		return
	}
	e.int(v.UnixMicro())
}

// decoder takes values in the order in which they were appended. After the first one that is not there, it gives zero values and bad is set.
type decoder struct {
	in  []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.in)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) fail() { d.bad, d.in = true, nil }

// bytes returns bytes that share memory with the record.
func (d *decoder) bytes() []byte { return d.take(d.uint()) }

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.in)) {
		d.fail()
		return nil
	}
	v := d.in[:n:n]
	d.in = d.in[n:]
	return v
}

func (d *decoder) text() string { return string(d.bytes()) }
func (d *decoder) bool() bool   { return d.uint() != 0 }

func (d *decoder) time() time.Time {
	if v := d.int(); v != 0 {
		return time.UnixMicro(v).UTC()
	}
	return time.Time{}
}

// count is a number of elements that follow, each of at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.in)) {
		d.fail()
		return 0
	}
	return int(n)
}

// path is a path that is not the root, unless the record is damaged.
func (d *decoder) path() fsops.Path { return fsops.PathOf(d.text()) }
