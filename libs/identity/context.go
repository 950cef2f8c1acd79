package identity

import "context"

type identityKey struct{}
type bucketKey struct{}

// NewContext returns ctx with the identity of the call. A bucket that was put into ctx for another identity does not
// hold any more: who acts for somebody else must not see the data of the caller.
func NewContext(ctx context.Context, id Identity) context.Context {
	if before, ok := FromContext(ctx); ok && !before.selectsAs(id) {
		ctx = context.WithValue(ctx, bucketKey{}, nil)
	}
	return context.WithValue(ctx, identityKey{}, id)
}

// selectsAs says whether two identities select the same data and thread.
func (id Identity) selectsAs(other Identity) bool {
	return id.Tenant == other.Tenant && id.Agent == other.Agent && id.User == other.User &&
		id.Session == other.Session && id.Scope == other.Scope
}

// FromContext returns the identity of the call, and whether there is one.
func FromContext(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// NewBucketContext returns ctx with a bucket that was resolved by another service and verified here. The access
// interceptor calls it for a capability, which carries the bucket. Call it after [NewContext].
func NewBucketContext(ctx context.Context, b Bucket) context.Context {
	return context.WithValue(ctx, bucketKey{}, b)
}

// BucketFromContext returns the bucket of the call: that of a verified capability when there is one, else what the
// identity's scope selects. Without an identity it is IDENTITY_REQUIRED.
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
