package composite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// memoryBytes is the size up to which content waits in memory. What is larger waits in a file without a name.
const memoryBytes = 256 << 10

// content is staged content whose store is known when it is put to its path. It is staged there then, once for each store, and waits here till then.
type content struct {
	store *Store
	size  int64
	sum   string
	data  []byte   // small content
	file  *os.File // large content; nil for small
	// inUpdate: it was made within an update, whose next run makes its own.
	inUpdate bool

	mu     sync.Mutex
	gone   bool
	staged map[int]files.Staged
}

// Size implements [files.Staged].
func (c *content) Size() int64 { return c.size }

// SHA256 implements [files.Staged].
func (c *content) SHA256() string { return c.sum }

// Discard implements [files.Staged].
func (c *content) Discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	for _, staged := range c.staged {
		staged.Discard()
	}
	if c.file != nil {
		removeSpool(c.file)
	}
}

// Stage implements [files.Store]. It takes memoryBytes of memory and, for larger content, as much room in the spool directory.
func (s *Store) Stage(ctx context.Context, r io.Reader, limit int64) (files.Staged, error) {
	if err := errors.Join(s.open(), ctx.Err()); err != nil {
		return nil, err
	}
	out := &content{store: s, inUpdate: txOf(ctx, s) != nil, staged: map[int]files.Staged{}}
	h := sha256.New()
	source := &source{ctx: ctx, r: r, limit: limit}
	var head bytes.Buffer
	n, err := io.Copy(io.MultiWriter(&head, h), io.LimitReader(source, memoryBytes+1))
	if err != nil {
		return nil, err
	}
	out.size, out.data = n, head.Bytes()
	if n > memoryBytes {
		if err := out.spill(source, h); err != nil {
			return nil, err
		}
	}
	out.sum = hex.EncodeToString(h.Sum(nil))
	return out, nil
}

// spill moves the content into a file, and the rest of the source after it.
func (c *content) spill(rest io.Reader, h io.Writer) error {
	f, err := os.CreateTemp(c.store.spool, "gantry-spool-")
	if err != nil {
		return spoolError(err)
	}
	// Without a name, the file goes when the process does. Where that is not possible, Discard removes it.
	_ = os.Remove(f.Name())
	var n int64
	if _, err = f.Write(c.data); err == nil {
		n, err = io.Copy(io.MultiWriter(f, h), rest)
	}
	if err != nil {
		removeSpool(f)
		return spoolError(err)
	}
	c.size, c.file, c.data = c.size+n, f, nil
	return nil
}

func removeSpool(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// spoolError is the typed error of a spool that can't be written. Errors of the source pass.
func spoolError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fsops.ErrStoreReadOnly("no space left")
	}
	var disk *os.PathError
	if errors.As(err, &disk) {
		return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "content can't be spooled")
	}
	return err
}

// stage stages the content in one of the stores. Within an update it lasts as long as that.
func (c *content) stage(ctx context.Context, i int) (files.Staged, error) {
	var r io.Reader = bytes.NewReader(c.data)
	if c.file != nil {
		r = io.NewSectionReader(c.file, 0, c.size)
	}
	staged, err := c.store.stores[i].Stage(c.store.in(ctx, i), r, 0)
	if err != nil {
		return nil, err
	}
	if staged.SHA256() != c.sum {
		staged.Discard()
		return nil, fmt.Errorf("content changed on its way from the spool to the store %s", c.store.names[i])
	}
	return staged, nil
}

// stageBefore stages the content in a store outside of an update.
func (c *content) stageBefore(ctx context.Context, i int) error {
	staged, err := c.stage(ctx, i)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		staged.Discard()
		return errors.New("content was discarded")
	}
	c.staged[i] = staged
	return nil
}

// ready returns the content as it is staged in a store. late says that it must be staged outside of the update first, which would hold others up for as long as it takes.
func (c *content) ready(i int) (staged files.Staged, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	staged = c.staged[i]
	return staged, staged == nil && c.file != nil && !c.inUpdate
}

// source reads content that may have limit bytes, and ends with its context.
type source struct {
	ctx         context.Context
	r           io.Reader
	limit, size int64
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	if s.size += int64(n); s.limit > 0 && s.size > s.limit {
		return 0, fsops.ErrTooLarge(s.limit, s.size)
	}
	return n, err
}
