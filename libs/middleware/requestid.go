package middleware

import (
	"context"
	"crypto/rand"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
)

// RequestID takes the caller's request id, or makes one, puts it into the context for logs and returns it as a header
// of the response, of a refusal too.
func RequestID() Interceptor {
	return Interceptor{Name: "request id", Around: func(ctx context.Context, call *Call, next func(context.Context) error) error {
		call.RequestID = incomingRequestID(ctx)
		if call.RequestID == "" {
			call.RequestID = rand.Text()
		}
		// Fails only when the header is out already, or in a test without a transport: neither may end the call.
		_ = grpc.SetHeader(ctx, metadata.Pairs(idmeta.KeyRequestID, idmeta.Encode(call.RequestID)))
		return next(identity.NewContext(ctx, identity.Identity{RequestID: call.RequestID}))
	}}
}

// incomingRequestID returns the caller's request id when it is a sound one; the identity interceptor refuses the
// others.
func incomingRequestID(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, idmeta.KeyRequestID)
	if len(values) != 1 {
		return ""
	}
	id, err := idmeta.Decode(values[0])
	if err != nil || identity.ValidateID("request id", id) != nil {
		return ""
	}
	return id
}
