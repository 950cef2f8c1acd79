package manifest

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// maxStaged is how old staged content may be when an update takes it over. Drivers remove it after a day.
	maxStaged = 12 * time.Hour
	// hashedAnew is the size up to which the SHA-256 of a file that is appended to is computed from its beginning.
	hashedAnew = 64 << 10
	// discardTime bounds the removal of content that nobody wants.
	discardTime = 10 * time.Second
)

// staged is content that waits for an update: in memory when it is one chunk, else in chunks of no space.
type staged struct {
	store  *Store
	size   int64
	sum    string
	hash   []byte // its state, so that an append can go on from there
	data   []byte // one chunk
	chunks []piece
	begun  time.Time

	mu    sync.Mutex
	taken bool
	home  home
}

// home is where content was put for an update. A run that does not count leaves it there for the next one.
type home struct {
	space  files.Space
	tag    tag
	pieces []piece
	begun  bool // some of the chunks may exist
	put    bool // all of them exist
}

func (s *staged) Size() int64    { return s.size }
func (s *staged) SHA256() string { return s.sum }

// Discard implements [files.Staged]. What it fails to remove, a sweep removes later.
func (s *staged) Discard() {
	s.mu.Lock()
	gone, at := s.taken, s.home
	s.taken = true
	s.mu.Unlock()
	if gone || len(s.chunks) == 0 && !at.begun {
		return
	}
	leave, err := s.store.enter()
	if err != nil {
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(context.Background(), discardTime)
	defer cancel()
	if len(s.chunks) > 0 {
		_ = s.store.driver.Unstage(ctx, namesOf(s.chunks))
	}
	if at.begun {
		_ = s.store.driver.Delete(ctx, at.space, namesOf(at.pieces))
	}
}

func namesOf(pieces []piece) []string {
	out := make([]string, len(pieces))
	for i, p := range pieces {
		out[i] = p.name()
	}
	return out
}

// Stage implements [files.Store].
func (s *Store) Stage(ctx context.Context, r io.Reader, limit int64) (files.Staged, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	out := &staged{store: s, begun: time.Now()}
	err = out.fill(ctx, r, limit)
	leave()
	if err != nil {
		out.Discard()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return out, nil
}

// fill reads all of the content, one chunk at a time.
func (s *staged) fill(ctx context.Context, r io.Reader, limit int64) error {
	h := sha256.New()
	buf := make([]byte, 0, 16<<10)
	var id []piece
	for end := false; !end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if buf, end, err = fill(r, buf[:0]); err != nil {
			return err
		}
		if limit > 0 && s.size+int64(len(buf)) > limit {
			return fsops.ErrTooLarge(limit, s.size+int64(len(buf)))
		}
		h.Write(buf)
		s.size += int64(len(buf))
		if end && len(s.chunks) == 0 {
			s.data = buf[:len(buf):len(buf)]
			break
		}
		if len(buf) == 0 {
			break
		}
		if id == nil {
			id = newPieces(tag{}, 1)
		}
		p := piece{id: id[0].id, index: uint32(len(s.chunks)), size: uint32(len(buf))}
		s.chunks = append(s.chunks, p)
		if err := s.store.driver.Stage(ctx, Chunk{Name: p.name(), Data: buf}); err != nil {
			return err
		}
	}
	s.sum, s.hash = hex.EncodeToString(h.Sum(nil)), hashState(h)
	return nil
}

// fill reads until there is a chunk or the content ends. Its buffer grows with what there is.
func fill(r io.Reader, buf []byte) ([]byte, bool, error) {
	for len(buf) < chunkBytes {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(4*cap(buf), chunkBytes))
			copy(grown, buf)
			buf = grown
		}
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return buf, true, nil
		}
		if err != nil {
			return buf, false, err
		}
	}
	return buf, false, nil
}

func hashState(h hash.Hash) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return state
}

// settle gives the content its place in a space and returns its pieces. Chunks that still have to be put are returned with their bytes.
func (s *staged) settle(ctx context.Context, space files.Space, t tag) ([]piece, map[piece][]byte, error) {
	if expired(s.begun, maxStaged) {
		return nil, nil, errdefs.New(errdefs.ErrAborted, fsops.Domain, "", "the content was staged too long ago: send it again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.home.pieces == nil || s.home.space != space || s.home.tag != t {
		s.home = home{space: space, tag: t, pieces: newPieces(t, s.size)}
	}
	if s.home.put || s.size == 0 {
		return s.home.pieces, nil, nil
	}
	if len(s.chunks) == 0 {
		return s.home.pieces, map[piece][]byte{s.home.pieces[0]: s.data}, nil
	}
	s.home.begun = true
	if err := s.store.driver.Adopt(ctx, space, namesOf(s.chunks), namesOf(s.home.pieces)); err != nil {
		return nil, nil, err
	}
	s.home.put = true
	return s.home.pieces, nil, nil
}

// waits says whether the chunk is among those that are to be written.
func (s *staged) waits(pending map[piece][]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.home.pieces) == 0 {
		return false
	}
	_, waits := pending[s.home.pieces[0]]
	return waits
}

// noteHome notes that the chunk is being written, or that it is there.
func (s *staged) noteHome(put bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.home.begun, s.home.put = true, put
}
