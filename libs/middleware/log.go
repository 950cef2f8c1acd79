package middleware

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

// levels says how loud the end of a call is, by what it means for the operator: nothing to do, somebody may be doing
// something odd, something is wrong here.
var levels = map[codes.Code]slog.Level{
	codes.OK:                 slog.LevelDebug,
	codes.Canceled:           slog.LevelDebug,
	codes.InvalidArgument:    slog.LevelInfo,
	codes.NotFound:           slog.LevelInfo,
	codes.AlreadyExists:      slog.LevelInfo,
	codes.FailedPrecondition: slog.LevelInfo,
	codes.Aborted:            slog.LevelInfo,
	codes.OutOfRange:         slog.LevelInfo,
	codes.Unimplemented:      slog.LevelInfo,
	codes.PermissionDenied:   slog.LevelWarn,
	codes.Unauthenticated:    slog.LevelWarn,
	codes.ResourceExhausted:  slog.LevelWarn,
	codes.DeadlineExceeded:   slog.LevelWarn,
	codes.Unavailable:        slog.LevelWarn,
	codes.DataLoss:           slog.LevelError,
	codes.Internal:           slog.LevelError,
	codes.Unknown:            slog.LevelError,
}

// Log writes one line at the end of each call: method, code, reason, time taken, identity, and of an error the text
// with its private cause.
func Log(logger *slog.Logger) Interceptor {
	return Interceptor{Name: "log", Around: func(ctx context.Context, call *Call, next func(context.Context) error) error {
		begin := time.Now()
		err := next(ctx)
		code := errgrpc.CodeOf(err)
		level := levels[code]
		if !logger.Enabled(ctx, level) {
			return err
		}
		attrs := []slog.Attr{
			slog.String("method", strings.TrimPrefix(call.Method, "/")),
			slog.String("code", code.String()),
			slog.Duration("took", time.Since(begin)),
			slog.String("request_id", call.RequestID),
		}
		for _, id := range [...]struct{ key, value string }{
			{"tenant", call.Identity.Tenant}, {"agent", call.Identity.Agent}, {"user", call.Identity.User}, {"session", call.Identity.Session},
		} {
			if id.value != "" {
				attrs = append(attrs, slog.String(id.key, id.value))
			}
		}
		if reason := errdefs.ReasonOf(err); reason != "" {
			attrs = append(attrs, slog.String("reason", reason))
		}
		if err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		logger.LogAttrs(ctx, level, "call", attrs...)
		return err
	}}
}
