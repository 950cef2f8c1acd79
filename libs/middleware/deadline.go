package middleware

import (
	"context"
	"time"
)

// Deadline gives a unary call a deadline when its caller set none, so that nothing waits for ever for a caller who
// forgot. Streams live as long as their callers like: a watch is open for days.
func Deadline(timeout time.Duration, byMethod map[string]time.Duration) Interceptor {
	return Interceptor{Name: "deadline", Around: func(ctx context.Context, call *Call, next func(context.Context) error) error {
		limit := timeout
		if own, ok := byMethod[call.Method]; ok {
			limit = own
		}
		if _, has := ctx.Deadline(); has || call.Stream || limit <= 0 {
			return next(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return next(ctx)
	}}
}
