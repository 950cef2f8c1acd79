package local

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// staged is content in a synced file of the staging directory.
type staged struct {
	store *Store
	name  string
	size  int64
	sum   string
	state []byte // of the hash, so that an append can go on from there

	mu    sync.Mutex
	taken bool
}

func (s *staged) Size() int64    { return s.size }
func (s *staged) SHA256() string { return s.sum }
func (s *staged) path() string   { return filepath.Join(s.store.stage, s.name) }

// Discard implements [files.Staged].
func (s *staged) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.taken {
		s.taken = true
		_ = os.Remove(s.path()) // what stays behind is cleared at the next start
	}
}

// Stage implements [files.Store].
func (s *Store) Stage(ctx context.Context, r io.Reader, limit int64) (files.Staged, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	out := &staged{store: s, name: rand.Text()}
	f, err := os.OpenFile(out.path(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, diskError(err)
	}
	h := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), 64<<10)
	if limit > 0 {
		r = io.LimitReader(r, limit+1)
	}
	out.size, err = io.Copy(w, ctxReader{ctx, r})
	if err == nil && limit > 0 && out.size > limit {
		err = fsops.ErrTooLarge(limit, out.size)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		out.Discard()
		return nil, diskError(err)
	}
	out.sum, out.state = hex.EncodeToString(h.Sum(nil)), hashState(h)
	return out, nil
}

func hashState(h any) []byte {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return state
}

// ctxReader ends with its context.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// clearStage removes what no intent refers to: all of it, after recovery.
func (s *Store) clearStage() error {
	entries, err := os.ReadDir(s.stage)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(s.stage, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
