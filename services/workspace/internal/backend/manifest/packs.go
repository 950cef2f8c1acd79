package manifest

import (
	"context"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// makePack puts the entries after those that are packed, up to one, into chunks of the space.
func (l *live) makePack(ctx context.Context, st *state, through int64) (op, error) {
	stored, err := l.store.driver.Entries(ctx, l.space, st.packed()+1, through)
	if err != nil {
		return op{}, err
	}
	o := op{kind: opPacked, number: through, first: 1}
	if n := len(st.packs); n > 0 {
		o.first = st.packs[n-1].last + 1
	}
	o.last = o.first - 1
	var e encoder
	e.uint(uint64(len(stored)))
	for _, data := range stored {
		n, err := decodeEntry(data)
		if err != nil {
			return op{}, err
		}
		e.bytes(data)
		o.when = n.time
		o.last += int64(n.changes())
	}
	data := seal(kindPack, e.out)
	o.pieces = newPieces(tagOf(st.generation), int64(len(data)))
	chunks := make([]Chunk, len(o.pieces))
	for i, p := range o.pieces {
		chunks[i] = Chunk{Name: p.name(), Data: data[i*chunkBytes : i*chunkBytes+int(p.size)]}
	}
	return o, l.store.driver.Put(ctx, l.space, chunks)
}

// changes counts the entries of the change log in an entry.
func (n *entry) changes() (count int) {
	for i := range n.ops {
		if n.ops[i].kind == opLog {
			count++
		}
	}
	return count
}

// unpack reads the entries of a pack.
func (l *live) unpack(ctx context.Context, pk pack) ([]*entry, error) {
	var data []byte
	fetched, err := l.store.fetch(ctx, l.space, pk.pieces)
	if err != nil {
		return nil, err
	}
	for _, p := range pk.pieces {
		part := fetched[p]
		if part == nil {
			return nil, files.ErrChanged
		}
		data = append(data, part...)
	}
	return decodePack(data)
}

func decodePack(data []byte) ([]*entry, error) {
	body, err := unseal(kindPack, data)
	if err != nil {
		return nil, err
	}
	d := &decoder{in: body}
	var out []*entry
	for range d.count() {
		n, err := decodeEntry(d.bytes())
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if d.bad || len(d.in) > 0 {
		return nil, errDamaged("pack")
	}
	return out, nil
}
