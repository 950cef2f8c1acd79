package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

const domain = "gantry.gateway.v1"

// writeError answers with the status as JSON: code, message and details, among them the reason.
func writeError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	err = unreadable(err)
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, errgrpc.ToStatus(err))
}

// unreadable gives a reason to what the library says about bodies and queries that it could not read.
func unreadable(err error) error {
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		return err
	}
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.InvalidArgument || len(st.Details()) > 0 {
		return err
	}
	if strings.Contains(st.Message(), "http: request body too large") {
		return errdefs.New(errdefs.ErrResourceExhausted, domain, "BODY_TOO_LARGE", "the body of the request is too large; uploads go through /v1/fs:upload")
	}
	return errdefs.New(errdefs.ErrInvalidArgument, domain, "REQUEST_UNREADABLE", "%s", strings.TrimPrefix(st.Message(), "proto:"))
}

// streamError is the last line of a stream that failed.
func streamError(_ context.Context, err error) *status.Status {
	return status.Convert(errgrpc.ToStatus(err))
}

// routingError answers requests that are no call.
func routingError(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	err := errdefs.New(errdefs.ErrNotFound, domain, "NO_SUCH_CALL", "nothing is served at %s %s: /docs lists what is", r.Method, r.URL.Path)
	switch code {
	case http.StatusMethodNotAllowed:
		err = errdefs.New(errdefs.ErrUnimplemented, domain, "METHOD_NOT_ALLOWED", "%s is not served at %s: /docs lists what is", r.Method, r.URL.Path)
		w = &codeWriter{ResponseWriter: w, code: code}
	case http.StatusBadRequest:
		err = errdefs.New(errdefs.ErrInvalidArgument, domain, "PATH_MALFORMED", "the path can't be read")
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, errgrpc.ToStatus(err))
}

// codeWriter answers with a code that no gRPC status maps to.
type codeWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (w *codeWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.code) }
