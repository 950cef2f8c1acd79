package composite

import "context"

type txKey struct{}

// txOf is the update of a store in whose run a context is.
func txOf(ctx context.Context, s *Store) *tx {
	if x, ok := ctx.Value(txKey{}).(*tx); ok && x.store == s {
		return x
	}
	return nil
}

// in is the context for a call of one of the stores. Within an update, that store's own update must be found in it, which another store's may cover.
func (s *Store) in(ctx context.Context, i int) context.Context {
	x := txOf(ctx, s)
	if x == nil || x.contexts[i] == nil {
		return ctx
	}
	return layered{Context: ctx, values: x.contexts[i]}
}

// layered is a context with the values of another one in front of its own.
type layered struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (l layered) Value(key any) any {
	if v := l.values.Value(key); v != nil {
		return v
	}
	return l.Context.Value(key)
}
