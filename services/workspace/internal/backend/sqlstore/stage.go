package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

const (
	// chunkBytes is the size of a full chunk.
	chunkBytes = 256 << 10
	// inlineBytes is the size up to which staged content waits in memory.
	inlineBytes = 256 << 10
	// discardTime bounds the wait for a lost update whose content is to be discarded. What stays is left to the sweep.
	discardTime = 10 * time.Second
	// appendBytes is the size up to which an append adds to the last chunk instead of making one.
	appendBytes = 32 << 10
)

// staged is content that waits for an update: in memory when small, else in rows that no node refers to.
type staged struct {
	store *Store
	size  int64
	sum   string
	state []byte // of the hash, so that an append can go on from there
	data  []byte // small content
	// signature of small content, for searches.
	signature trigram.Signature
	id        int64 // rows of large content, 0 for small
	// within says that the rows were made in the transaction of an update: they go when that is undone, and their id may then be that of another content.
	within bool

	mu    sync.Mutex
	taken bool
}

func (s *staged) Size() int64    { return s.size }
func (s *staged) SHA256() string { return s.sum }

// Discard implements [files.Staged]. What it fails to remove, the sweep removes later.
func (s *staged) Discard() {
	s.mu.Lock()
	gone := s.taken
	s.taken = true
	s.mu.Unlock()
	if gone || s.id == 0 || s.within || s.store.open() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardTime)
	defer cancel()
	_ = s.store.db.Update(ctx, "", func(ctx context.Context, q Querier) error {
		_, err := s.store.dropLoose(ctx, q, []int64{s.id})
		return err
	})
}

// dropLoose removes contents that nothing refers to, and returns which those were. An update whose connection was lost may have taken one over all the same, or be about to: its row
// is then locked until that is settled, and not loose afterwards.
func (s *Store) dropLoose(ctx context.Context, q Querier, ids []int64) ([]int64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var gone []int64
	err := q.Query(ctx, `DELETE FROM contents WHERE loose_since > 0 AND id `+s.db.Dialect().InNumbers("?1")+` RETURNING id`, func(row Row) error {
		var id int64
		err := row.Scan(&id)
		gone = append(gone, id)
		return err
	}, s.db.Dialect().Numbers(ids))
	if err != nil || len(gone) == 0 {
		return nil, err
	}
	return gone, q.Do(ctx, `DELETE FROM chunks WHERE content_id `+s.db.Dialect().InNumbers("?1"), s.db.Dialect().Numbers(gone))
}

// dropContent removes a content of an index, which keeps no bytes here.
func dropContent(ctx context.Context, q Querier, id int64) error {
	if err := q.Do(ctx, `DELETE FROM chunks WHERE content_id = ?1`, id); err != nil {
		return err
	}
	return q.Do(ctx, `DELETE FROM contents WHERE id = ?1`, id)
}

// chunks is room for chunks on their way: most content is far smaller, and making and clearing a chunk's worth of memory would cost more than the write.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

type txKey struct{}

// Stage implements [files.Store]. Within an update, large content goes through that update's transaction.
func (s *Store) Stage(ctx context.Context, r io.Reader, limit int64) (files.Staged, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	out := &staged{store: s}
	run := func(ctx context.Context, f func(context.Context, Querier) error) error {
		return s.db.Update(ctx, "", f)
	}
	if t, ok := ctx.Value(txKey{}).(*tx); ok && t.store == s {
		out.within = true
		run = func(ctx context.Context, f func(context.Context, Querier) error) error { return f(ctx, t.q) }
	}
	h := sha256.New()
	room := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(room)
	buf := room[:0]
	for {
		if err := ctx.Err(); err != nil {
			out.Discard()
			return nil, err
		}
		var end bool
		var err error
		if buf, end, err = fill(r, buf); err == nil && limit > 0 && out.size+int64(len(buf)) > limit {
			err = fsops.ErrTooLarge(limit, out.size+int64(len(buf)))
		}
		if err != nil {
			out.Discard()
			return nil, err
		}
		h.Write(buf)
		if end && out.id == 0 && len(buf) <= inlineBytes {
			out.data, out.size = bytes.Clone(buf), int64(len(buf))
			break
		}
		if len(buf) > 0 {
			err = run(ctx, func(ctx context.Context, q Querier) error { return s.addChunk(ctx, q, out, buf) })
			if err != nil {
				out.Discard()
				return nil, s.fault(ctx, err)
			}
			out.size += int64(len(buf))
			buf = buf[:0]
		}
		if end {
			break
		}
	}
	if out.id == 0 {
		out.signature = trigram.Of(out.data)
	}
	out.sum, out.state = hex.EncodeToString(h.Sum(nil)), hashState(h)
	return out, nil
}

// fill reads until buf is full or the content ends.
func fill(r io.Reader, buf []byte) ([]byte, bool, error) {
	n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
	buf = buf[:len(buf)+n]
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return buf, true, nil
	}
	return buf, false, err
}

// addChunk adds a chunk to staged content, making its row first.
func (s *Store) addChunk(ctx context.Context, q Querier, to *staged, data []byte) error {
	if to.id == 0 {
		id, err := newContent(ctx, q, 0, s.now().UnixMicro(), nil)
		if err != nil {
			return err
		}
		to.id = id
	}
	// Not later: the buffer is filled anew for the next chunk.
	_, err := q.Exec(ctx, `INSERT INTO chunks (content_id, start, data) VALUES (?1, ?2, ?3)`, to.id, to.size, data)
	return err
}

// newContent makes a row of contents. space 0: staged, of no space yet. since is when it was staged, or 0 when it is in use.
func newContent(ctx context.Context, q Querier, space, since int64, state []byte) (id int64, err error) {
	err = q.Query(ctx, `INSERT INTO contents (space_id, loose_since, hash_state) VALUES (?1, ?2, ?3) RETURNING id`,
		func(row Row) error { return row.Scan(&id) }, space, since, state)
	return id, err
}

func hashState(h hash.Hash) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return state
}
