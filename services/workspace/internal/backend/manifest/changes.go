package manifest

import (
	"context"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// keptChanges is how many changes of a space are kept for Watch at least.
const keptChanges = 50_000

// Head implements [files.Store].
func (s *Store) Head(ctx context.Context, space files.Space) (files.Cursor, error) {
	st, err := s.look(ctx, space)
	if err != nil {
		return files.Cursor{}, err
	}
	return st.cursor(), nil
}

// Usage implements [files.Store].
func (s *Store) Usage(ctx context.Context, space files.Space) (files.Usage, error) {
	st, err := s.look(ctx, space)
	if err != nil {
		return files.Usage{}, err
	}
	return st.usage, nil
}

// Changes implements [files.Store].
func (s *Store) Changes(ctx context.Context, space files.Space, after files.Cursor, limit int) ([]files.Change, error) {
	l, release, err := s.hold(space)
	if err != nil {
		return nil, err
	}
	defer release()
	st, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	if after.Generation != "" && after.Generation != st.generation || after.Seq > st.seq {
		return nil, fsops.ErrCursorExpired(after.String(), st.cursor().String())
	}
	if out := st.recent(after.Seq, limit); len(out) > 0 || after.Seq == st.seq {
		return out, nil
	}
	return l.older(ctx, st, after, limit)
}

// recent returns the changes after one, if the state has the first of them in memory.
func (s *state) recent(after int64, limit int) (out []files.Change) {
	if first, some := s.changes.Min(); !some || first.Cursor.Seq > after+1 {
		return nil
	}
	s.changes.AscendGreaterOrEqual(files.Change{Cursor: files.Cursor{Seq: after + 1}}, func(c files.Change) bool {
		out = append(out, c)
		return len(out) < limit
	})
	return out
}

// older reads changes from packs, and from the entries that are in none.
func (l *live) older(ctx context.Context, st *state, after files.Cursor, limit int) (out []files.Change, err error) {
	next, number := int64(1), st.base+1
	take := func(n *entry) {
		for i := range n.ops {
			if o := &n.ops[i]; o.kind == opLog {
				c := o.change
				c.Cursor, c.Time = files.Cursor{Generation: st.generation, Seq: next}, n.time
				if next > after.Seq && len(out) < limit {
					out = append(out, c)
				}
				next++
			}
		}
	}
	for i, pk := range st.packs {
		if i == 0 {
			if next = pk.first; after.Seq+1 < next {
				return nil, fsops.ErrCursorExpired(after.String(), files.Cursor{Generation: st.generation, Seq: next - 1}.String())
			}
		}
		number = pk.through + 1
		if pk.last <= after.Seq {
			next = pk.last + 1
			continue
		}
		entries, err := l.unpack(ctx, pk)
		if err != nil {
			return nil, err
		}
		for _, n := range entries {
			take(n)
		}
		if len(out) == limit {
			return out, nil
		}
	}
	for len(out) < limit && number <= st.at.Number {
		last := min(number+readAhead-1, st.at.Number)
		stored, err := l.store.driver.Entries(ctx, l.space, number, last)
		if err != nil {
			return nil, err
		}
		for _, data := range stored {
			n, err := decodeEntry(data)
			if err != nil {
				return nil, err
			}
			take(n)
		}
		number = last + 1
	}
	return out, nil
}

// Wait implements [files.Store].
func (s *Store) Wait(ctx context.Context, space files.Space, after files.Cursor) error {
	if err := s.open(); err != nil {
		return err
	}
	s.mu.Lock()
	signal, ok := s.signals[space]
	if !ok {
		signal = make(chan struct{})
		s.signals[space] = signal
	}
	s.mu.Unlock()
	// A change between the caller's look and now has made no signal for us.
	head, err := s.Head(ctx, space)
	if err != nil || head != after && (head.Seq != 0 || after != files.Cursor{}) {
		return err
	}
	timer := time.NewTimer(s.driver.PollEvery())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-signal:
		return s.open()
	case <-timer.C:
		return nil
	}
}

// changed wakes those who wait for a space.
func (s *Store) changed(space files.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.signals[space]; ok {
		close(c)
		delete(s.signals, space)
	}
}

const (
	// spacesPage is how many names are asked for at once, and spacesAtOnce how many of the spaces are looked into.
	spacesPage   = 200
	spacesAtOnce = 8
)

// Spaces implements [files.Store]. The driver names every space that ever had an entry; those that hold no file now are left out.
func (s *Store) Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []files.Space
	for len(out) < limit {
		names, more, err := s.driver.Spaces(ctx, prefix, after, min(spacesPage, limit))
		if err != nil {
			return nil, err
		}
		held, err := s.holdFiles(ctx, names)
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			if held[i] && len(out) < limit {
				out = append(out, name)
			}
			after = name
		}
		if !more || len(names) == 0 {
			break
		}
	}
	return out, nil
}

// holdFiles says which spaces hold a file.
func (s *Store) holdFiles(ctx context.Context, names []files.Space) ([]bool, error) {
	out := make([]bool, len(names))
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for w := range min(spacesAtOnce, len(names)) {
		wait.Go(func() {
			for i := w; i < len(names); i += spacesAtOnce {
				var u files.Usage
				u, errs[i] = s.Usage(ctx, names[i])
				out[i] = u.Files > 0
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
