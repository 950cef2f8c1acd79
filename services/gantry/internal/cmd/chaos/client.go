package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

const (
	// callTime bounds one attempt, patience the attempts of one call and the wait for a run.
	callTime, patience = 5 * time.Second, 90 * time.Second
	firstWait          = 20 * time.Millisecond
	longestWait        = 500 * time.Millisecond
)

// errStuck says that something did not come about in time.
var errStuck = errors.New("it did not come about in time")

// transient says whether a call may be made again: the server was away, or it does not know what came of it.
func transient(err error) bool {
	for _, class := range []error{errdefs.ErrUnavailable, errdefs.ErrDeadlineExceeded, errdefs.ErrResourceExhausted, errdefs.ErrCanceled} {
		if errors.Is(err, class) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// insist makes a call, each time on a connection of its own choice, until it is answered. Who calls must be able to say the same thing twice.
func insist[Q, R any](ctx context.Context, to func() grpc.ClientConnInterface, method func(grpc.ClientConnInterface) func(context.Context, *Q, ...grpc.CallOption) (*R, error), q *Q) (*R, error) {
	end := time.Now().Add(patience)
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		attempt, cancel := context.WithTimeout(ctx, callTime)
		r, err := method(to())(attempt, q)
		cancel()
		if err == nil || ctx.Err() != nil || !transient(err) {
			return r, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%w: %w", errStuck, err)
		}
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}
