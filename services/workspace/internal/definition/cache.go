package definition

import (
	"container/list"
	"context"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// maxCached and maxCachedBytes bound the definitions that are kept, of the buckets that asked last.
	maxCached      = 1000
	maxCachedBytes = 64 << 20
)

// paths are where all that a definition is made of lies.
var paths = []fsops.Path{
	fsops.PathOf("AGENTS.md"), fsops.PathOf("MEMORY.md"), fsops.PathOf("knowledge"), fsops.PathOf("skills"), fsops.PathOf("subagents"),
	fsops.PathOf("tools.json"), fsops.PathOf("agent.yaml"),
}

// Cache keeps definitions, in the form that its user wants, for as long as their files are the same: each time it asks the layers for their versions, so that a change is seen at
// once, by whomever it was made. What it gives out is shared and not to be changed. It is safe for concurrent use.
type Cache[T any] struct {
	form  func(Definition) T
	mu    sync.Mutex
	of    map[cacheKey]*list.Element // of *cached[T]
	order *list.List                 // the one used last in front
	bytes int
}

// cacheKey names what a definition is of: a bucket may be that of several agents.
type cacheKey struct {
	space files.Space
	agent string
}

type cached[T any] struct {
	key     cacheKey
	version string
	bytes   int
	value   T
}

// NewCache returns an empty cache of what form makes of the definition of an agent.
func NewCache[T any](form func(Definition) T) *Cache[T] {
	return &Cache[T]{form: form, of: map[cacheKey]*list.Element{}, order: list.New()}
}

// Get is [Build] for the view of an agent's bucket, in the cache's form.
func (c *Cache[T]) Get(ctx context.Context, agent string, view *files.View) (T, error) {
	var none T
	key := cacheKey{space: view.Space(), agent: agent}
	version, err := view.Version(ctx, paths...)
	if err != nil {
		return none, err
	}
	if d, ok := c.have(key, version); ok {
		return d, nil
	}
	b := &builder{view: view}
	d, err := b.build(ctx)
	if err != nil {
		return none, err
	}
	out := c.form(d)
	if version == "" {
		return out, nil
	}
	// What was changed meanwhile may be in it in part.
	if now, err := view.Version(ctx, paths...); err != nil || now != version {
		return out, nil
	}
	c.keep(&cached[T]{key: key, version: version, bytes: b.total + b.texted, value: out})
	return out, nil
}

func (c *Cache[T]) have(key cacheKey, version string) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.of[key]
	if !ok || version == "" || e.Value.(*cached[T]).version != version {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached[T]).value, true
}

func (c *Cache[T]) keep(d *cached[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.of[d.key]; ok {
		c.drop(e)
	}
	c.of[d.key] = c.order.PushFront(d)
	c.bytes += d.bytes
	for c.bytes > maxCachedBytes || c.order.Len() > maxCached {
		c.drop(c.order.Back())
	}
}

func (c *Cache[T]) drop(e *list.Element) {
	d := c.order.Remove(e).(*cached[T])
	delete(c.of, d.key)
	c.bytes -= d.bytes
}
