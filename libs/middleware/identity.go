package middleware

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
)

// Identity reads the identity of the call from its metadata into the context. Metadata that breaks the rules is
// IDENTITY_MALFORMED. The tenant is the default one until the access interceptor knows better.
func Identity() Interceptor {
	return Interceptor{Name: "identity", Around: func(ctx context.Context, call *Call, next func(context.Context) error) error {
		id, err := idmeta.FromIncoming(ctx)
		if err != nil {
			return err
		}
		id.Tenant, id.RequestID = identity.DefaultTenant, call.RequestID
		call.Identity = id
		return next(identity.NewContext(ctx, id))
	}}
}

// Access refuses calls that the credential does not allow, and puts the grant, the identity that the credential
// confirms, the bucket of a capability and the token to carry on into the context.
func Access(auth *access.Authenticator) Interceptor {
	return Interceptor{Name: "access", Around: func(ctx context.Context, call *Call, next func(context.Context) error) error {
		authorization := metadata.ValueFromIncomingContext(ctx, idmeta.KeyAuthorization)
		grant, token, err := auth.Authorize(call.Method, call.Identity, authorization)
		if err != nil {
			return err
		}
		call.Identity = grant.Identity
		ctx = identity.NewContext(ctx, grant.Identity)
		ctx = access.NewContext(ctx, grant)
		if grant.Bucket != nil {
			ctx = identity.NewBucketContext(ctx, *grant.Bucket)
		}
		if token != "" {
			ctx = access.NewTokenContext(ctx, token)
		}
		return next(ctx)
	}}
}
