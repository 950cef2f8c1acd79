package manifest

import (
	"container/list"
	"sync"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// cache holds recently read chunks. Their names are never used again, so what it holds is never stale.
type cache struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	order *list.List // newest first
	items map[chunkKey]*list.Element
}

type chunkKey struct {
	space files.Space
	piece piece
}

type cached struct {
	key  chunkKey
	data []byte
}

// cachedWeight is what a chunk takes beside its bytes, about.
const cachedWeight = 250

func newCache(limit int64) *cache {
	return &cache{limit: limit, order: list.New(), items: map[chunkKey]*list.Element{}}
}

// get returns the bytes of a chunk, which the caller must not change; nil when they are not here.
func (c *cache) get(space files.Space, p piece) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[chunkKey{space, p}]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).data
}

// put keeps the bytes of a chunk. A large chunk, one of a file that is read as a stream, would drive out many small files; it is not kept.
func (c *cache) put(space files.Space, p piece, data []byte) {
	if int64(len(data)) > min(c.limit/16, smallPiece) {
		return
	}
	key := chunkKey{space, p}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.items[key]; ok {
		return
	}
	c.items[key] = c.order.PushFront(&cached{key, data})
	c.bytes += int64(len(data)) + cachedWeight
	for c.bytes > c.limit {
		last := c.order.Back()
		gone := c.order.Remove(last).(*cached)
		delete(c.items, gone.key)
		c.bytes -= int64(len(gone.data)) + cachedWeight
	}
}
