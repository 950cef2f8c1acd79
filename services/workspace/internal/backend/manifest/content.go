package manifest

import (
	"context"
	"io"
	"sort"
	"sync"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// loadChunks and loadBytes bound what is asked of the driver at once.
	loadChunks = 512
	loadBytes  = 8 << 20
)

// reader gives the bytes of a chunk.
type reader func(ctx context.Context, p piece) ([]byte, error)

// chunk reads a chunk of a space.
func (s *Store) chunk(ctx context.Context, space files.Space, p piece) ([]byte, error) {
	if data := s.chunks.get(space, p); data != nil {
		return data, nil
	}
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	got, err := s.driver.Get(ctx, space, []string{p.name()})
	if err != nil {
		return nil, err
	}
	if len(got[0]) != int(p.size) {
		return nil, files.ErrChanged
	}
	s.chunks.put(space, p, got[0])
	return got[0], nil
}

// Open implements [files.Tree]. It asks for nothing newer: the node was found a moment ago.
func (t *tree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	l, release, err := t.store.hold(t.space)
	if err != nil {
		return nil, err
	}
	defer release()
	it := l.find(l.known(), n)
	if it == nil {
		st, err := l.look(ctx)
		if err != nil {
			return nil, err
		}
		if it = l.find(st, n); it == nil {
			return nil, files.ErrChanged
		}
	}
	return newContent(ctx, it, func(ctx context.Context, p piece) ([]byte, error) { return t.store.chunk(ctx, t.space, p) }), ctx.Err()
}

// Load implements [files.Tree].
func (t *tree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	l, release, err := t.store.hold(t.space)
	if err != nil {
		return nil, err
	}
	defer release()
	st := l.known()
	if st == nil {
		if st, err = l.look(ctx); err != nil {
			return nil, err
		}
	}
	items := make([]*item, len(nodes))
	var missing []piece
	for i, n := range nodes {
		if items[i] = l.find(st, n); items[i] == nil {
			continue
		}
		for _, p := range items[i].pieces {
			if t.store.chunks.get(t.space, p) == nil {
				missing = append(missing, p)
			}
		}
	}
	fetched, err := t.store.fetch(ctx, t.space, missing)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(nodes))
	for i, it := range items {
		if it != nil {
			out[i] = t.store.join(t.space, it, fetched)
		}
	}
	return out, ctx.Err()
}

// fetch reads chunks of a space, many at once.
func (s *Store) fetch(ctx context.Context, space files.Space, pieces []piece) (map[piece][]byte, error) {
	out := make(map[piece][]byte, len(pieces))
	for len(pieces) > 0 {
		var names []string
		for bytes := 0; len(names) < min(len(pieces), loadChunks) && bytes < loadBytes; {
			bytes += int(pieces[len(names)].size)
			names = append(names, pieces[len(names)].name())
		}
		got, err := s.driver.Get(ctx, space, names)
		if err != nil {
			return nil, err
		}
		for i, data := range got {
			if len(data) == int(pieces[i].size) {
				out[pieces[i]] = data
				s.chunks.put(space, pieces[i], data)
			}
		}
		pieces = pieces[len(names):]
	}
	return out, nil
}

// join puts the content of a file together; nil when a part of it is gone.
func (s *Store) join(space files.Space, it *item, fetched map[piece][]byte) []byte {
	out := []byte{}
	for i, p := range it.pieces {
		data := fetched[p]
		if data == nil {
			data = s.chunks.get(space, p)
		}
		if data == nil {
			return nil
		}
		if i == 0 {
			out = data[:len(data):len(data)] // one chunk is the whole of most files
		} else {
			out = append(out, data...)
		}
	}
	return out
}

// content reads the chunks of one revision. It keeps the one that it read last.
type content struct {
	ctx    context.Context
	read   reader
	pieces []piece
	ends   []int64 // where each piece ends
	size   int64

	mu    sync.Mutex
	last  int
	chunk []byte
}

func newContent(ctx context.Context, it *item, read reader) *content {
	c := &content{ctx: context.WithoutCancel(ctx), read: read, pieces: it.pieces, size: it.Size, ends: make([]int64, len(it.pieces))}
	var end int64
	for i, p := range it.pieces {
		end += int64(p.size)
		c.ends[i] = end
	}
	return c
}

// Size implements [files.Content].
func (c *content) Size() int64 { return c.size }

// Close implements [files.Content].
func (c *content) Close() error { return nil }

// ReadAt implements [io.ReaderAt].
func (c *content) ReadAt(p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= c.size {
			return n, io.EOF
		}
		i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > at })
		if c.chunk == nil || c.last != i {
			data, err := c.read(c.ctx, c.pieces[i])
			if err != nil {
				return n, err
			}
			c.last, c.chunk = i, data
		}
		n += copy(p[n:], c.chunk[at-(c.ends[i]-int64(c.pieces[i].size)):])
	}
	return n, nil
}
