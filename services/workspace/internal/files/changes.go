package files

import (
	"context"
	"errors"
	"time"
)

// changesPage is how many changes are taken from the store at once.
const changesPage = 500

// Follow passes the changes after a cursor to emit, in order, each at least once, and waits for more: at most wait without one, until emit fails or ctx ends.
// With wait zero it ends after what there is. idle is called with the cursor each time before it waits. It returns the cursor to go on from.
//
// The log is that of the bucket: changes of lower layers are not in it.
func (v *View) Follow(ctx context.Context, after Cursor, wait time.Duration, idle func(Cursor) error, emit func(Change) error) (Cursor, error) {
	for {
		changes, err := v.store.Changes(ctx, v.space, after, changesPage)
		if err != nil {
			return after, err
		}
		for _, c := range changes {
			if err := emit(c); err != nil {
				return after, err
			}
			after = c.Cursor
		}
		if len(changes) > 0 {
			continue
		}
		if wait <= 0 {
			return after, nil
		}
		if err := idle(after); err != nil {
			return after, err
		}
		more, err := v.await(ctx, after, wait)
		if err != nil || !more {
			return after, err
		}
	}
}

// await waits until there are changes after the cursor; false when the time ran out.
func (v *View) await(ctx context.Context, after Cursor, wait time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		if err := v.store.Wait(limited, v.space, after); err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return false, nil
			}
			return false, err
		}
		changes, err := v.store.Changes(ctx, v.space, after, 1)
		if err != nil || len(changes) > 0 {
			return err == nil, err
		}
	}
}

// Head returns the cursor after the bucket's last change.
func (v *View) Head(ctx context.Context) (Cursor, error) { return v.store.Head(ctx, v.space) }
