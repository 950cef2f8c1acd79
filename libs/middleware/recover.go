package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// ReasonPanic is the reason of a call that ended in a panic.
const ReasonPanic = "PANIC"

// Recover turns a panic into INTERNAL with the request id; the value and the stack go to the log only.
func Recover(logger *slog.Logger) Interceptor {
	return Interceptor{Name: "recover", Around: func(ctx context.Context, call *Call, next func(context.Context) error) (err error) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			logger.ErrorContext(ctx, "panic in a call", "method", call.Method, "request_id", call.RequestID,
				"panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = errdefs.New(errdefs.ErrInternal, errdefs.DomainCommon, ReasonPanic, "internal error").With("request_id", call.RequestID)
		}()
		return next(ctx)
	}}
}
