package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// RetryPolicy bounds the retries of one request.
type RetryPolicy struct {
	Attempts int           // all of them, the first included
	Initial  time.Duration // wait before the second attempt
	Max      time.Duration // longest wait; a provider that asks for more gets its error reported instead
	Jitter   float64       // part of the wait that is random: a wait w becomes w*(1-Jitter) to w*(1+Jitter)
	// Sleep waits; nil is a timer. It returns the context's error when that ends first.
	Sleep func(ctx context.Context, d time.Duration) error
	// Retried is told of each failed attempt that will be repeated; nil is fine.
	Retried func(attempt int, wait time.Duration, err error)
}

// DefaultRetryPolicy is three attempts with waits of about 2 and 4 seconds.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Attempts: 3, Initial: 2 * time.Second, Max: 30 * time.Second, Jitter: 0.5}
}

// Retry repeats requests whose first signal is a retryable error. Once an event of the answer has been handed on nothing
// is repeated: the caller has seen it. Generate of the result therefore returns only when the first event is there.
func Retry(p Provider, policy RetryPolicy) Provider {
	if policy.Attempts < 1 {
		policy.Attempts = 1
	}
	if policy.Sleep == nil {
		policy.Sleep = sleep
	}
	if policy.Retried == nil {
		policy.Retried = func(int, time.Duration, error) {}
	}
	return &retrier{p, policy}
}

type retrier struct {
	Provider
	policy RetryPolicy
}

func (r *retrier) Unwrap() Provider { return r.Provider }

func (r *retrier) Generate(ctx context.Context, req Request) (Stream, error) {
	return retry(ctx, r.policy, func() (Stream, error) { return first(ctx, r.Provider, req) })
}

func (r *retrier) Embed(ctx context.Context, req EmbedRequest) (EmbedResponse, error) {
	return retry(ctx, r.policy, func() (EmbedResponse, error) { return r.Provider.Embed(ctx, req) })
}

func retry[T any](ctx context.Context, policy RetryPolicy, do func() (T, error)) (T, error) {
	wait := policy.Initial
	for attempt := 1; ; attempt++ {
		out, err := do()
		if err == nil || attempt >= policy.Attempts || ctx.Err() != nil || !Retryable(err) {
			return out, err
		}
		d := min(wait, policy.Max)
		d = time.Duration(float64(d) * (1 + policy.Jitter*(2*rand.Float64()-1)))
		var e *Error
		if errors.As(err, &e) && e.RetryAfter() > 0 {
			if d = e.RetryAfter(); d > policy.Max {
				return out, err
			}
		}
		policy.Retried(attempt, d, err)
		if policy.Sleep(ctx, d) != nil {
			return out, err // the provider's error says more than "cancelled while waiting"
		}
		wait *= 2
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
