package errgrpc

import (
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FromStatus returns the error of a call as a typed error: errors.As finds an [errdefs.Error], errors.Is holds for its
// class. Errors that are no status (io.EOF at the end of a stream, an error that is typed already) are returned as they
// are.
func FromStatus(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	return &remoteError{typed: decode(s)}
}

// remoteError is an error that another process reported.
type remoteError struct{ typed *errdefs.Error }

// Error gives the text for people and logs.
func (e *remoteError) Error() string { return e.typed.Error() }

// Unwrap returns the typed error.
func (e *remoteError) Unwrap() error { return e.typed }

// GRPCStatus lets code that expects the error of a plain gRPC client, such as the REST gateway, see the public status.
func (e *remoteError) GRPCStatus() *status.Status { return encode(e.typed) }

// decode reads a status and its details.
func decode(s *status.Status) *errdefs.Error {
	var (
		info       *errdetails.ErrorInfo
		retry      *errdetails.RetryInfo
		violations []errdefs.Violation
	)
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				violations = append(violations, errdefs.Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		}
	}
	class := classOf(s.Code())
	e := &errdefs.Error{Class: class, Message: s.Message(), Violations: violations}
	if hidden(s.Code(), info) {
		// The transport's own words: addresses and system errors. They are for this process's log.
		e = errdefs.Wrap(errors.New(s.Message()), class, "", "", class.Error())
	}
	if info != nil {
		e.Domain, e.Reason, e.Meta = info.GetDomain(), info.GetReason(), info.GetMetadata()
	}
	if retry != nil {
		e.RetryAfter = retry.GetRetryDelay().AsDuration()
	}
	return e
}

// hidden says whether the message of a status may not travel on to the caller's caller.
func hidden(code codes.Code, info *errdetails.ErrorInfo) bool {
	if info != nil {
		return false
	}
	switch code {
	case codes.Unknown, codes.Internal, codes.Unavailable:
		return true
	}
	return false
}
