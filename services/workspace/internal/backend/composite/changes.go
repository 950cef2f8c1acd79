package composite

import (
	"context"
	"errors"
	"sync"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// heads are the cursors after the last change of each store.
func (s *Store) heads(ctx context.Context, space files.Space) (cursors, error) {
	out := make(cursors, len(s.stores))
	for _, i := range s.holding(space) {
		var err error
		if out[i], err = s.stores[i].Head(s.in(ctx, i), space); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Head implements [files.Store].
func (s *Store) Head(ctx context.Context, space files.Space) (files.Cursor, error) {
	all, err := s.heads(ctx, space)
	if err != nil {
		return files.Cursor{}, err
	}
	return s.join(all), nil
}

// Changes implements [files.Store]. The changes of one store are in order; those of several are put together by their times.
func (s *Store) Changes(ctx context.Context, space files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	at, err := s.split(after)
	if err != nil {
		return nil, err
	}
	logs := make([][]files.Change, len(s.stores))
	for _, i := range s.holding(space) {
		logs[i], err = s.stores[i].Changes(ctx, space, at[i], limit)
		if errdefs.ReasonOf(err) == fsops.ReasonCursorExpired {
			return nil, s.expired(ctx, space, after)
		}
		if err != nil {
			return nil, err
		}
	}
	var out []files.Change
	for len(out) < limit {
		first := -1
		for i, log := range logs {
			if len(log) > 0 && (first < 0 || log[0].Time.Before(logs[first][0].Time)) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		c := logs[first][0]
		logs[first] = logs[first][1:]
		at[first] = c.Cursor
		c.Cursor = s.join(at)
		out = append(out, c)
	}
	return out, nil
}

// expired is the error of a cursor that one of the stores does not know any more, with one from which all changes are kept.
func (s *Store) expired(ctx context.Context, space files.Space, after files.Cursor) error {
	head, err := s.Head(ctx, space)
	if err != nil {
		return err
	}
	return fsops.ErrCursorExpired(after.String(), head.String())
}

// Wait implements [files.Store]: it waits for whichever store changes first.
func (s *Store) Wait(ctx context.Context, space files.Space, after files.Cursor) error {
	at, err := s.split(after)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	all := s.holding(space)
	ended := make(chan error, len(all))
	for _, i := range all {
		group.Go(func() { ended <- s.await(limited, i, space, at[i]) })
	}
	err = <-ended
	cancel()
	group.Wait()
	return err
}

// await waits for a store. A cursor before its first change is not equal to the head of a store that counts from a generation on, so what is there is looked at first.
func (s *Store) await(ctx context.Context, i int, space files.Space, after files.Cursor) error {
	if after.Seq == 0 {
		head, err := s.stores[i].Head(ctx, space)
		if err != nil {
			return err
		}
		if head.Seq == 0 {
			after = head
		}
	}
	err := s.stores[i].Wait(ctx, space, after)
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}
