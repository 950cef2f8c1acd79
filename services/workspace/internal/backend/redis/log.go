package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// create appends an entry if the log ends where the writer thinks.
var create = client.NewScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
	return 0
end
redis.call('XADD', KEYS[2], ARGV[3], 'd', ARGV[4])
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 1
`)

// Create implements [manifest.Driver].
func (d *driver) Create(ctx context.Context, space files.Space, after, at manifest.Position, data []byte) error {
	if after.Number == 0 {
		if err := d.list(ctx, space); err != nil {
			return err
		}
	}
	var made int
	err := d.call(ctx, func(ctx context.Context) (err error) {
		made, err = create.Run(ctx, d.client, []string{d.head(space), d.log(space)},
			headOf(after), headOf(at), entryID(at.Number), data, d.channel(), string(space)).Int()
		return err
	})
	if err == nil && made == 0 {
		return manifest.ErrTaken
	}
	return err
}

// list adds a space to those that Spaces returns.
func (d *driver) list(ctx context.Context, space files.Space) error {
	return d.call(ctx, func(ctx context.Context) error {
		return d.client.ZAdd(ctx, d.spaces(), client.Z{Member: string(space)}).Err()
	})
}

// After implements [manifest.Driver].
func (d *driver) After(ctx context.Context, space files.Space, at manifest.Position, limit int) (out []manifest.Entry, err error) {
	head := ""
	err = d.call(ctx, func(ctx context.Context) (err error) {
		head, err = d.client.Get(ctx, d.head(space)).Result()
		if errors.Is(err, client.Nil) {
			err = nil
		}
		return err
	})
	if err != nil || head == headOf(at) {
		return nil, err
	}
	out, err = d.read(ctx, space, entryID(at.Number+1), "+", int64(limit))
	if err == nil && (len(out) == 0 || out[0].Number != at.Number+1) {
		err = manifest.ErrLost
	}
	return out, err
}

func (d *driver) read(ctx context.Context, space files.Space, first, last string, limit int64) (out []manifest.Entry, err error) {
	var found []client.XMessage
	err = d.call(ctx, func(ctx context.Context) (err error) {
		found, err = d.client.XRangeN(ctx, d.log(space), first, last, limit).Result()
		return err
	})
	for _, m := range found {
		data, _ := m.Values["d"].(string)
		out = append(out, manifest.Entry{Number: numberOf(m.ID), Data: []byte(data)})
	}
	return out, err
}

// Entries implements [manifest.Driver].
func (d *driver) Entries(ctx context.Context, space files.Space, first, last int64) ([][]byte, error) {
	out := make([][]byte, last-first+1)
	found, err := d.read(ctx, space, entryID(first), entryID(last), last-first+1)
	for _, e := range found {
		out[e.Number-first] = e.Data
	}
	return out, err
}

// Checkpoints implements [manifest.Driver].
func (d *driver) Checkpoints(ctx context.Context, space files.Space) (out []manifest.Mark, err error) {
	var found map[string]string
	err = d.call(ctx, func(ctx context.Context) (err error) {
		found, err = d.client.HGetAll(ctx, d.marks(space)).Result()
		return err
	})
	for number, at := range found {
		micros, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			out = append(out, manifest.Mark{Number: numberOf(number), Time: time.UnixMicro(micros)})
		}
	}
	slices.SortFunc(out, func(a, b manifest.Mark) int { return int(a.Number - b.Number) })
	return out, err
}

// Checkpoint implements [manifest.Driver].
func (d *driver) Checkpoint(ctx context.Context, space files.Space, number int64) (data []byte, err error) {
	err = d.call(ctx, func(ctx context.Context) (err error) {
		data, err = d.client.HGet(ctx, d.states(space), strconv.FormatInt(number, 10)).Bytes()
		if errors.Is(err, client.Nil) {
			data, err = nil, nil
		}
		return err
	})
	return data, err
}

// PutCheckpoint implements [manifest.Driver]. It also lists the space again, in case that the list was lost.
func (d *driver) PutCheckpoint(ctx context.Context, space files.Space, number int64, data []byte) error {
	field := strconv.FormatInt(number, 10)
	err := d.call(ctx, func(ctx context.Context) error {
		now, err := d.client.Time(ctx).Result()
		if err != nil {
			return err
		}
		_, err = d.client.TxPipelined(ctx, func(p client.Pipeliner) error {
			p.HSet(ctx, d.states(space), field, data)
			p.HSet(ctx, d.marks(space), field, now.UnixMicro())
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	return d.list(ctx, space)
}

// Prune implements [manifest.Driver].
func (d *driver) Prune(ctx context.Context, space files.Space, _, last, keep int64) error {
	if err := d.call(ctx, func(ctx context.Context) error { return d.client.XTrimMinID(ctx, d.log(space), entryID(last+1)).Err() }); err != nil {
		return err
	}
	marks, err := d.Checkpoints(ctx, space)
	if err != nil {
		return err
	}
	var old []string
	for _, m := range marks {
		if m.Number < keep {
			old = append(old, strconv.FormatInt(m.Number, 10))
		}
	}
	if len(old) == 0 {
		return nil
	}
	return d.call(ctx, func(ctx context.Context) error {
		_, err := d.client.TxPipelined(ctx, func(p client.Pipeliner) error {
			p.HDel(ctx, d.marks(space), old...)
			p.HDel(ctx, d.states(space), old...)
			return nil
		})
		return err
	})
}

// Erase implements [manifest.Driver]: the head keeps the numbers taken.
func (d *driver) Erase(ctx context.Context, space files.Space, last, keep int64) error {
	return d.Prune(ctx, space, 1, last, keep)
}
