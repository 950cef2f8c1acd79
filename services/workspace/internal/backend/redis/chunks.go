package redis

import (
	"context"
	"errors"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// batchBytes and batchKeys bound what is sent, or asked for, at once.
	batchBytes = 8 << 20
	batchKeys  = 512
	// stagedLife is when staged chunks expire.
	stagedLife = 24 * time.Hour
)

// Put implements [manifest.Driver]. The name is noted before the chunk is there, so that no chunk is without one.
func (d *driver) Put(ctx context.Context, space files.Space, chunks []manifest.Chunk) error {
	now := float64(time.Now().Unix())
	for len(chunks) > 0 {
		n := 0
		for bytes := 0; n < min(len(chunks), batchKeys) && bytes < batchBytes; n++ {
			bytes += len(chunks[n].Data)
		}
		err := d.call(ctx, func(ctx context.Context) error {
			_, err := d.client.Pipelined(ctx, func(p client.Pipeliner) error {
				for _, c := range chunks[:n] {
					p.ZAdd(ctx, d.chunks(space), client.Z{Score: now, Member: c.Name})
				}
				for _, c := range chunks[:n] {
					p.Set(ctx, d.chunk(space, c.Name), c.Data, 0)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
		chunks = chunks[n:]
	}
	return nil
}

// Get implements [manifest.Driver].
func (d *driver) Get(ctx context.Context, space files.Space, names []string) ([][]byte, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = d.chunk(space, name)
	}
	var found []any
	err := d.call(ctx, func(ctx context.Context) (err error) {
		found, err = d.client.MGet(ctx, keys...).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(names))
	for i, v := range found {
		if text, ok := v.(string); ok {
			out[i] = []byte(text)
		}
	}
	return out, nil
}

// Delete implements [manifest.Driver].
func (d *driver) Delete(ctx context.Context, space files.Space, names []string) error {
	for len(names) > 0 {
		n := min(len(names), batchKeys)
		err := d.call(ctx, func(ctx context.Context) error {
			_, err := d.client.Pipelined(ctx, func(p client.Pipeliner) error {
				for _, name := range names[:n] {
					p.Unlink(ctx, d.chunk(space, name))
				}
				for _, name := range names[:n] {
					p.ZRem(ctx, d.chunks(space), name)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// Sweep implements [manifest.Driver]. Staged chunks expire by themselves.
func (d *driver) Sweep(ctx context.Context, space files.Space, before time.Time, doomed func(string) bool) error {
	var cursor uint64
	for {
		var found []string // name, score, name, score, …
		err := d.call(ctx, func(ctx context.Context) (err error) {
			found, cursor, err = d.client.ZScan(ctx, d.chunks(space), cursor, "", batchKeys).Result()
			return err
		})
		if err != nil {
			return err
		}
		var gone []string
		for i := 0; i+1 < len(found); i += 2 {
			if (before.IsZero() || earlier(found[i+1], before)) && doomed(found[i]) {
				gone = append(gone, found[i])
			}
		}
		if err := d.Delete(ctx, space, gone); err != nil {
			return err
		}
		if cursor == 0 {
			return nil
		}
	}
}

// Stage implements [manifest.Driver].
func (d *driver) Stage(ctx context.Context, c manifest.Chunk) error {
	return d.call(ctx, func(ctx context.Context) error { return d.client.Set(ctx, d.staged(c.Name), c.Data, stagedLife).Err() })
}

// Adopt implements [manifest.Driver]. A staged chunk is in another slot than those of the space, so its bytes pass through here.
func (d *driver) Adopt(ctx context.Context, space files.Space, from, to []string) error {
	for i, name := range from {
		var data []byte
		err := d.call(ctx, func(ctx context.Context) (err error) {
			data, err = d.client.Get(ctx, d.staged(name)).Bytes()
			if errors.Is(err, client.Nil) {
				return errdefs.New(errdefs.ErrAborted, fsops.Domain, "", "the content was staged too long ago: send it again")
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := d.Put(ctx, space, []manifest.Chunk{{Name: to[i], Data: data}}); err != nil {
			return err
		}
	}
	return nil
}

// Unstage implements [manifest.Driver].
func (d *driver) Unstage(ctx context.Context, names []string) error {
	return d.call(ctx, func(ctx context.Context) error {
		_, err := d.client.Pipelined(ctx, func(p client.Pipeliner) error {
			for _, name := range names {
				p.Unlink(ctx, d.staged(name))
			}
			return nil
		})
		return err
	})
}
