package model

import "context"

// Target is a model at a provider.
type Target struct {
	Provider Provider
	Model    string
}

// Fallback sends requests to the primary provider and, when the first signal of the answer is an error, to the next
// target with that target's model. It never changes horses after the first event. It does not fall back when the request
// itself is at fault (bad request, context overflow) or the caller gave up. Embeddings never fall back: vectors of two
// models cannot be compared.
//
// told, if not nil, is told of each change.
func Fallback(primary Provider, told func(to Target, err error), others ...Target) Provider {
	if told == nil {
		told = func(Target, error) {}
	}
	return &fallback{primary, others, told}
}

type fallback struct {
	Provider
	others []Target
	told   func(Target, error)
}

func (f *fallback) Unwrap() Provider { return f.Provider }

func (f *fallback) Generate(ctx context.Context, req Request) (Stream, error) {
	s, err := first(ctx, f.Provider, req)
	for _, t := range f.others {
		if err == nil || ctx.Err() != nil || !mayFallBack(err) {
			break
		}
		f.told(t, err)
		next := req
		next.Model = t.Model
		var nextErr error
		if s, nextErr = first(ctx, t.Provider, next); nextErr == nil {
			return s, nil
		}
		err = nextErr
	}
	return s, err
}

func mayFallBack(err error) bool {
	kind, ok := KindOf(err)
	return ok && kind != KindBadRequest && kind != KindContextOverflow
}
