package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
)

func (p *Provider) error(kind model.Kind, modelName, format string, args ...any) error {
	return model.NewError(kind, p.config.Name, modelName, format, args...)
}

// unreachable explains an error of the connection. The context's own end comes first.
func (p *Provider) unreachable(ctx context.Context, modelName string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.error(model.KindUnavailable, modelName, "the server of %s is not reached: %w", p.config.Name, err)
}

// maxErrorBody bounds what is read of an error's text.
const maxErrorBody = 16 << 10

// refused explains a response with a bad status.
func (p *Provider) refused(ctx context.Context, modelName string, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped struct {
		Error json.RawMessage `json:"error"`
	}
	text := json.RawMessage(body)
	if json.Unmarshal(body, &wrapped) == nil && len(wrapped.Error) > 0 {
		text = wrapped.Error
	}
	return wireError(p.config.Name, modelName, resp.StatusCode, text).After(retryAfter(resp.Header, time.Now()))
}

// wireError reads the error object of the wire: {"message", "type", "code"}, or a text alone. status is 0 inside a stream.
func wireError(provider, modelName string, status int, raw json.RawMessage) *model.Error {
	var e struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Message == "" {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		e.Message = text
	}
	code, _ := e.Code.(string)
	message := strings.TrimSpace(e.Message)
	if len(message) > 500 {
		message = message[:500] + "…"
	}
	if message == "" || strings.HasPrefix(message, "<") {
		message = http.StatusText(status)
	}
	return model.NewError(kindOf(status, code, e.Type, strings.ToLower(e.Message)), provider, modelName, "%s: %s", provider, strings.ToValidUTF8(message, "�"))
}

// kindOf reads status, code, type and, where these mean several things, the words of the server.
func kindOf(status int, code, kind, message string) model.Kind {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(message, w) {
				return true
			}
		}
		return false
	}
	switch {
	case code == "context_length_exceeded" || has("context length", "maximum context", "context window", "context size", "prompt is too long"):
		return model.KindContextOverflow
	case code == "insufficient_quota":
		return model.KindAuth // no waiting helps: the account must be paid for
	case code == "rate_limit_exceeded" || kind == "rate_limit_error" || status == http.StatusTooManyRequests:
		return model.KindRateLimited
	case status == http.StatusUnauthorized || status == http.StatusForbidden || code == "invalid_api_key":
		return model.KindAuth
	case has("does not support", "not supported"):
		return model.KindUnsupported
	case code == "model_not_found" || status == http.StatusNotFound:
		return model.KindUnknownModel
	case status == http.StatusServiceUnavailable || status == 529 || kind == "overloaded_error" || has("overloaded"):
		return model.KindOverloaded
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return model.KindTimeout
	case status >= http.StatusInternalServerError || status == 0:
		return model.KindUnavailable
	}
	return model.KindBadRequest
}

// retryAfter is the wait that the headers ask for, in milliseconds, seconds or as a date; 0 when they ask for none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
