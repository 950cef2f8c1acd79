package object

import (
	"context"
	"slices"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Create implements [manifest.Driver].
func (d *driver) Create(ctx context.Context, space files.Space, after, at manifest.Position, data []byte) error {
	if after.Number == 0 {
		if err := d.write(ctx, index(space), []byte(space), false); err != nil {
			return mapError(err)
		}
	}
	return d.create(ctx, logKey(space, at.Number), data)
}

// create makes an object. ErrTaken when there is one.
func (d *driver) create(ctx context.Context, key string, data []byte) error {
	release, err := d.guard()
	if err != nil {
		return err
	}
	defer release()
	err = d.write(ctx, key, data, true)
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return manifest.ErrTaken
	}
	return mapError(err)
}

// After implements [manifest.Driver]. It asks for the next entry; when there is one, for more at once.
func (d *driver) After(ctx context.Context, space files.Space, at manifest.Position, limit int) (out []manifest.Entry, err error) {
	for window := 1; len(out) < limit; window = min(2*window, parallel) {
		first := at.Number + 1 + int64(len(out))
		found, err := d.Entries(ctx, space, first, first+int64(min(window, limit-len(out)))-1)
		if err != nil {
			return nil, err
		}
		for i, data := range found {
			switch {
			case data == nil:
				return out, nil
			case len(data) == 0:
				return nil, manifest.ErrLost // erased
			}
			out = append(out, manifest.Entry{Number: first + int64(i), Data: data})
		}
	}
	return out, nil
}

// Entries implements [manifest.Driver].
func (d *driver) Entries(ctx context.Context, space files.Space, first, last int64) ([][]byte, error) {
	out := make([][]byte, last-first+1)
	err := d.each(ctx, len(out), func(ctx context.Context, i int) (err error) {
		out[i], err = d.read(ctx, logKey(space, first+int64(i)))
		return err
	})
	return out, err
}

// Checkpoints implements [manifest.Driver].
func (d *driver) Checkpoints(ctx context.Context, space files.Space) (out []manifest.Mark, err error) {
	err = d.list(ctx, key(space, "state"), func(rest string, o *blob.ListObject) (bool, error) {
		if n := numberOf(rest); n > 0 {
			out = append(out, manifest.Mark{Number: n, Time: o.ModTime})
		}
		return true, nil
	})
	slices.SortFunc(out, func(a, b manifest.Mark) int { return int(a.Number - b.Number) })
	return out, err
}

// Checkpoint implements [manifest.Driver].
func (d *driver) Checkpoint(ctx context.Context, space files.Space, number int64) ([]byte, error) {
	return d.read(ctx, stateKey(space, number))
}

// PutCheckpoint implements [manifest.Driver].
func (d *driver) PutCheckpoint(ctx context.Context, space files.Space, number int64, data []byte) error {
	return mapError(d.write(ctx, stateKey(space, number), data, false))
}

// Prune implements [manifest.Driver].
func (d *driver) Prune(ctx context.Context, space files.Space, first, last, keep int64) error {
	var keys []string
	for n := first; n <= last; n++ {
		keys = append(keys, logKey(space, n))
	}
	if err := d.remove(ctx, keys); err != nil {
		return err
	}
	return d.dropStates(ctx, space, keep)
}

func (d *driver) dropStates(ctx context.Context, space files.Space, keep int64) error {
	marks, err := d.Checkpoints(ctx, space)
	if err != nil {
		return err
	}
	var keys []string
	for _, m := range marks {
		if m.Number < keep {
			keys = append(keys, stateKey(space, m.Number))
		}
	}
	return d.remove(ctx, keys)
}

// Erase implements [manifest.Driver]: an empty object keeps each number taken.
func (d *driver) Erase(ctx context.Context, space files.Space, last, keep int64) error {
	var keys []string
	err := d.list(ctx, key(space, "log"), func(rest string, o *blob.ListObject) (bool, error) {
		if n := numberOf(rest); n > 0 && n <= last && o.Size > 0 {
			keys = append(keys, logKey(space, n))
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	err = d.each(ctx, len(keys), func(ctx context.Context, i int) error { return mapError(d.write(ctx, keys[i], nil, false)) })
	if err != nil {
		return err
	}
	return d.dropStates(ctx, space, keep)
}
