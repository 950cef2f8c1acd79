package ollama

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/gantry-agents/gantry/libs/model"
)

// explain says what a failure of the client means. The context's own end comes first: the client reports it as a broken
// connection.
func explain(ctx context.Context, modelName string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var status api.StatusError
	var auth api.AuthorizationError
	var netErr net.Error
	switch {
	case errors.As(err, &status):
		return model.NewError(kindOf(status.StatusCode, status.ErrorMessage), name, modelName, "Ollama: %s", text(status))
	case errors.As(err, &auth):
		return model.NewError(model.KindAuth, name, modelName, "Ollama wants a login for this model (ollama signin)")
	case errors.As(err, &netErr):
		return model.NewError(model.KindUnavailable, name, modelName, "the Ollama server is not reached: %w", err)
	}
	// An error inside a stream comes without a status.
	return model.NewError(kindOf(http.StatusInternalServerError, err.Error()), name, modelName, "Ollama: %s", err.Error())
}

func text(e api.StatusError) string {
	if e.ErrorMessage != "" {
		return e.ErrorMessage
	}
	return e.Error()
}

// kindOf reads the status and, where one status means several things, the words of the server.
func kindOf(status int, message string) model.Kind {
	message = strings.ToLower(message)
	switch {
	case strings.Contains(message, "context length"):
		return model.KindContextOverflow
	case strings.Contains(message, "does not support"):
		return model.KindUnsupported
	case status == http.StatusNotFound:
		return model.KindUnknownModel
	case strings.Contains(message, "invalid model name"):
		return model.KindUnknownModel
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return model.KindAuth
	case status == http.StatusTooManyRequests:
		return model.KindRateLimited
	case status == http.StatusServiceUnavailable:
		return model.KindOverloaded
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return model.KindTimeout
	case status >= http.StatusInternalServerError:
		return model.KindUnavailable
	}
	return model.KindBadRequest
}
