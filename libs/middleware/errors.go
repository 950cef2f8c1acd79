package middleware

import (
	"context"

	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

// Errors turns the errors of handlers into statuses. It is the only place of a server that does.
func Errors() Interceptor {
	return Interceptor{Name: "errors", Around: func(ctx context.Context, _ *Call, next func(context.Context) error) error {
		return errgrpc.ToStatus(next(ctx))
	}}
}
