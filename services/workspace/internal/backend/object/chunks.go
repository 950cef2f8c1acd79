package object

import (
	"context"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Put implements [manifest.Driver].
func (d *driver) Put(ctx context.Context, space files.Space, chunks []manifest.Chunk) error {
	return d.each(ctx, len(chunks), func(ctx context.Context, i int) error {
		return mapError(d.write(ctx, chunkKey(space, chunks[i].Name), chunks[i].Data, false))
	})
}

// Get implements [manifest.Driver].
func (d *driver) Get(ctx context.Context, space files.Space, names []string) ([][]byte, error) {
	out := make([][]byte, len(names))
	err := d.each(ctx, len(names), func(ctx context.Context, i int) (err error) {
		out[i], err = d.read(ctx, chunkKey(space, names[i]))
		return err
	})
	return out, err
}

// Delete implements [manifest.Driver].
func (d *driver) Delete(ctx context.Context, space files.Space, names []string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = chunkKey(space, name)
	}
	return d.remove(ctx, keys)
}

// sweepPage is how many objects a sweep removes before it lists on.
const sweepPage = 1000

// Sweep implements [manifest.Driver].
func (d *driver) Sweep(ctx context.Context, space files.Space, before time.Time, doomed func(string) bool) error {
	if err := d.sweep(ctx, key(space, "chunk"), before, doomed); err != nil {
		return err
	}
	return d.sweep(ctx, stagedPrefix, time.Now().Add(-stagedLife), func(string) bool { return true })
}

func (d *driver) sweep(ctx context.Context, prefix string, before time.Time, doomed func(string) bool) error {
	var keys []string
	err := d.list(ctx, prefix, func(rest string, o *blob.ListObject) (bool, error) {
		if (before.IsZero() || o.ModTime.Before(before)) && doomed(rest) {
			keys = append(keys, o.Key)
		}
		if len(keys) < sweepPage {
			return true, nil
		}
		err := d.remove(ctx, keys)
		keys = nil
		return true, err
	})
	if err != nil {
		return err
	}
	return d.remove(ctx, keys)
}

// Stage implements [manifest.Driver].
func (d *driver) Stage(ctx context.Context, c manifest.Chunk) error {
	return mapError(d.write(ctx, stagedPrefix+c.Name, c.Data, false))
}

// Adopt implements [manifest.Driver]: the provider copies.
func (d *driver) Adopt(ctx context.Context, space files.Space, from, to []string) error {
	return d.each(ctx, len(from), func(ctx context.Context, i int) error {
		err := d.call(ctx, func(ctx context.Context) error {
			return d.bucket.Copy(ctx, chunkKey(space, to[i]), stagedPrefix+from[i], nil)
		})
		if gcerrors.Code(err) == gcerrors.NotFound {
			return errdefs.New(errdefs.ErrAborted, fsops.Domain, "", "the content was staged too long ago: send it again")
		}
		return mapError(err)
	})
}

// Unstage implements [manifest.Driver].
func (d *driver) Unstage(ctx context.Context, names []string) error {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = stagedPrefix + name
	}
	return d.remove(ctx, keys)
}
