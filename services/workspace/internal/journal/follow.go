package journal

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// Scan calls emit with the events after a sequence, up to the head at the time of the call, in order. limit bounds the events (0: all). It returns the
// head at that time and whether limit ended it. Pages are read one at a time: a slow receiver holds nothing open in the store.
func Scan(ctx context.Context, r Reader, t identity.Thread, after, limit int64, types []string, emit func(Event) error) (Head, bool, error) {
	head, err := r.Head(ctx, t)
	if err != nil {
		return Head{}, false, err
	}
	if after > head.Seq {
		return Head{}, false, CursorInvalid(after, head.Seq)
	}
	for left := limit; after < head.Seq; {
		request := ReadRequest{After: after, Through: head.Seq, Types: types}
		if limit > 0 {
			request.Limit = int(min(left, PageEvents))
		}
		page, err := r.Read(ctx, t, request)
		if err != nil {
			return Head{}, false, err
		}
		for _, e := range page.Events {
			if err := emit(e); err != nil {
				return Head{}, false, err
			}
		}
		after = page.Next
		if left -= int64(len(page.Events)); limit > 0 && left == 0 {
			return head, after < head.Seq, nil
		}
	}
	return head, false, nil
}

// Follower receives what [Follow] finds.
type Follower interface {
	// Event is the next event.
	Event(Event) error
	// CaughtUp is called once, when all events up to the head at the start were given.
	CaughtUp(Head) error
}

// Follow gives the events after a sequence and then those that come, until ctx ends or maxWait passes without one. It returns the last
// sequence given. maxWait 0: what there is now.
func Follow(ctx context.Context, r Reader, t identity.Thread, after int64, maxWait time.Duration, f Follower) (int64, error) {
	emit := func(e Event) error {
		after = e.Seq
		return f.Event(e)
	}
	head, _, err := Scan(ctx, r, t, after, 0, nil, emit)
	if err != nil {
		return after, err
	}
	if err := f.CaughtUp(head); err != nil {
		return after, err
	}
	for maxWait > 0 {
		wait, cancel := context.WithTimeout(ctx, maxWait)
		err := r.Await(wait, t, after)
		quiet := errors.Is(wait.Err(), context.DeadlineExceeded) && ctx.Err() == nil
		cancel()
		if err != nil && quiet {
			return after, nil
		}
		if err != nil {
			return after, err
		}
		if _, _, err := Scan(ctx, r, t, after, 0, nil, emit); err != nil {
			return after, err
		}
	}
	return after, nil
}
