package sqlstore

import (
	"context"
	"io"
	"strconv"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Open implements [files.Tree].
func (t *tree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	id, err := strconv.ParseInt(n.Ref, 10, 64)
	if err != nil {
		return nil, fsops.ErrNotFound(n.Path.String())
	}
	c := &content{ctx: context.WithoutCancel(ctx), q: t.q, id: id, size: n.Size}
	if n.Size == 0 {
		return c, ctx.Err()
	}
	// The first read tells whether the content is still kept.
	if err := c.fetch(ctx, 0); err != nil {
		return nil, err
	}
	return c, nil
}

// Load implements [files.Tree].
func (t *tree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out := make([][]byte, len(nodes))
	index := make(map[int64][]int, len(nodes)) // previous revisions of a file that was appended to share its content
	var ids []int64
	for i, n := range nodes {
		id, err := strconv.ParseInt(n.Ref, 10, 64)
		if err != nil {
			continue
		}
		index[id] = append(index[id], i)
		ids = append(ids, id)
		if n.Size == 0 {
			out[i] = []byte{}
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	err := t.q.Query(ctx, `SELECT content_id, data FROM chunks WHERE content_id `+t.store.db.Dialect().InNumbers("?1")+` ORDER BY content_id, start`,
		func(row Row) error {
			var id int64
			var data []byte
			if err := row.Scan(&id, &data); err != nil {
				return err
			}
			for _, i := range index[id] {
				if int64(len(out[i])) < nodes[i].Size {
					out[i] = append(out[i], data...)
				}
			}
			return nil
		}, t.store.db.Dialect().Numbers(ids))
	for i, n := range nodes {
		if int64(len(out[i])) > n.Size {
			out[i] = out[i][:n.Size] // appended to since
		}
		if int64(len(out[i])) < n.Size {
			out[i] = nil
		}
	}
	return out, err
}

// content reads chunks. It keeps the one that it read last.
type content struct {
	ctx  context.Context
	q    Querier
	id   int64
	size int64

	mu    sync.Mutex
	start int64
	chunk []byte
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
		if at < c.start || at >= c.start+int64(len(c.chunk)) {
			if err := c.fetch(c.ctx, at); err != nil {
				return n, err
			}
		}
		have := c.chunk[at-c.start:]
		n += copy(p[n:], have[:min(int64(len(have)), c.size-at)])
	}
	return n, nil
}

// fetch reads the chunk that holds a position.
func (c *content) fetch(ctx context.Context, at int64) error {
	found := false
	err := c.q.Query(ctx, `SELECT start, data FROM chunks WHERE content_id = ?1 AND start <= ?2 ORDER BY start DESC LIMIT 1`, func(row Row) error {
		var data []byte
		if err := row.Scan(&c.start, &data); err != nil {
			return err
		}
		c.chunk = append([]byte(nil), data...)
		found = at < c.start+int64(len(c.chunk))
		return nil
	}, c.id, at)
	if err == nil && !found {
		return files.ErrChanged
	}
	return err
}
