package obs

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/gantry-agents/gantry/libs/identity"
)

const (
	requestIDKey = "request_id"
	traceIDKey   = "trace_id"
)

// NewLogger returns a logger that writes lines in the form of the settings and adds the request id and the trace id of
// the context to each.
func NewLogger(w io.Writer, cfg Config) (*slog.Logger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	level, err := cfg.level()
	if err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, opts)
	if cfg.LogFormat == "json" {
		handler = slog.NewJSONHandler(w, opts)
	}
	return slog.New(contextHandler{handler}), nil
}

// contextHandler adds what the context knows.
type contextHandler struct{ slog.Handler }

// Handle adds the ids, unless the line states them itself.
func (h contextHandler) Handle(ctx context.Context, record slog.Record) error {
	if id, ok := identity.FromContext(ctx); ok && id.RequestID != "" && !states(record, requestIDKey) {
		record = record.Clone()
		record.AddAttrs(slog.String(requestIDKey, id.RequestID))
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() && !states(record, traceIDKey) {
		record = record.Clone()
		record.AddAttrs(slog.String(traceIDKey, span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs keeps the wrapper.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the wrapper. The ids then belong to the group.
func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}

func states(record slog.Record, key string) bool {
	found := false
	record.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}
