package identity

import "context"

type identityKey struct{}
type bucketKey struct{}

// NewContext returns ctx with the identity of the call.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// FromContext returns the identity of the call, and whether there is one.
func FromContext(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// NewBucketContext returns ctx with a bucket that was resolved by another service and verified here. The access interceptor calls it for a
// capability, which carries the bucket.
func NewBucketContext(ctx context.Context, b Bucket) context.Context {
	return context.WithValue(ctx, bucketKey{}, b)
}

// BucketFromContext returns the bucket of the call: that of a verified capability when there is one, else what the identity's scope selects. Without
// an identity it is IDENTITY_REQUIRED.
func BucketFromContext(ctx context.Context) (Bucket, error) {
	if b, ok := ctx.Value(bucketKey{}).(Bucket); ok {
		return b, nil
	}
	id, ok := FromContext(ctx)
	if !ok {
		return Bucket{}, required("identity", "the call has no identity")
	}
	return id.Bucket()
}

// ThreadFromContext returns the thread of the call. Without an identity or a session it is IDENTITY_REQUIRED.
func ThreadFromContext(ctx context.Context) (Thread, error) {
	id, ok := FromContext(ctx)
	if !ok {
		return Thread{}, required("identity", "the call has no identity")
	}
	return id.Thread()
}
