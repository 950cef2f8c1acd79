package errgrpc

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

const (
	// MaxStatusBytes bounds a serialised status. It travels as base64 in a trailer, which makes 4 KiB of it.
	MaxStatusBytes = 3 << 10
	// maxMessageBytes bounds the message, which travels twice: in the status, and percent-encoded beside it.
	maxMessageBytes = 1 << 10
	// maxValueBytes bounds one value of the metadata and one description of a violation.
	maxValueBytes = 256
	// maxViolations bounds the list of wrong fields.
	maxViolations = 16
	// cutMark is the metadata key that says that facts were left out for size.
	cutMark = "truncated"
	// internalText is all that a caller learns of an error that has no class.
	internalText = "internal error"
)

// ToStatus returns err as an error that gRPC sends as a status with google.rpc.ErrorInfo, RetryInfo and BadRequest
// details. The cause stays reachable by [errors.Unwrap] for the log and is not sent. An error without a class becomes
// INTERNAL with a neutral text.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	var done *statusError
	if errors.As(err, &done) {
		return done
	}
	return &statusError{status: statusOf(err), cause: err}
}

// statusError is a status on its way out, with its private cause.
type statusError struct {
	status *status.Status
	cause  error
}

// Error gives the text for the log.
func (e *statusError) Error() string { return e.cause.Error() }

// Unwrap returns the private cause.
func (e *statusError) Unwrap() error { return e.cause }

// GRPCStatus is what gRPC sends.
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// statusOf composes the public status of err.
func statusOf(err error) *status.Status {
	var e *errdefs.Error
	if errors.As(err, &e) {
		return encode(e)
	}
	if s, ok := madeForTheWire(err); ok {
		return s
	}
	code := CodeOf(err)
	if s, ok := status.FromError(err); ok {
		// Wrapped: the code is sound, the text may hold anything.
		code = byClass[classOf(s.Code())]
	}
	if code == codes.Internal {
		return status.New(codes.Internal, internalText)
	}
	return status.New(code, classOf(code).Error())
}

// madeForTheWire returns the status of an error that gRPC or generated code made itself ("method X not implemented",
// "message too large"). Faults are left out: their text comes from anywhere.
func madeForTheWire(err error) (*status.Status, bool) {
	direct, ok := err.(interface{ GRPCStatus() *status.Status })
	if !ok {
		return nil, false
	}
	s := direct.GRPCStatus()
	switch s.Code() {
	case codes.OK, codes.Unknown, codes.Internal, codes.Unavailable:
		return nil, false
	case codes.Unimplemented:
		if len(s.Proto().GetDetails()) == 0 {
			return encode(errdefs.New(errdefs.ErrUnimplemented, errdefs.DomainCommon, errdefs.ReasonUnimplemented,
				"%s", s.Message())), true
		}
	}
	if proto.Size(s.Proto()) > MaxStatusBytes {
		return status.New(s.Code(), cut(s.Message(), maxMessageBytes)), true
	}
	return s, true
}

// encode makes the status of a typed error, within MaxStatusBytes.
func encode(e *errdefs.Error) *status.Status {
	base := status.New(byClass[errdefs.ClassOf(e)], cut(valid(e.Public()), maxMessageBytes))
	info := &errdetails.ErrorInfo{Reason: e.Reason, Domain: e.Domain, Metadata: printable(e.Meta)}
	bad := badRequest(e.Violations)
	if s := attach(base, e, info, bad); proto.Size(s.Proto()) <= MaxStatusBytes {
		return s
	}
	keys := slices.Sorted(maps.Keys(info.Metadata))
	for _, key := range keys {
		info.Metadata[key] = cut(info.Metadata[key], maxValueBytes)
	}
	for {
		s := attach(base, e, info, bad)
		if proto.Size(s.Proto()) <= MaxStatusBytes {
			return s
		}
		switch {
		case bad != nil && len(bad.FieldViolations) > 1:
			bad.FieldViolations = bad.FieldViolations[:len(bad.FieldViolations)/2]
		case len(keys) > 0:
			delete(info.Metadata, keys[len(keys)-1])
			keys = keys[:len(keys)-1]
		default:
			return base
		}
		if info.Metadata == nil {
			info.Metadata = make(map[string]string, 1)
		}
		info.Metadata[cutMark] = "true"
	}
}

// attach returns base with the details that say something.
func attach(base *status.Status, e *errdefs.Error, info *errdetails.ErrorInfo, bad *errdetails.BadRequest) *status.Status {
	var details []protoadapt.MessageV1
	if info.Reason != "" || info.Domain != "" || len(info.Metadata) > 0 {
		details = append(details, protoadapt.MessageV1Of(info))
	}
	if e.RetryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}))
	}
	if bad != nil {
		details = append(details, protoadapt.MessageV1Of(bad))
	}
	s, err := base.WithDetails(details...)
	if err != nil {
		return base
	}
	return s
}

// badRequest lists the first violations, or returns nil when there are none.
func badRequest(violations []errdefs.Violation) *errdetails.BadRequest {
	if len(violations) == 0 {
		return nil
	}
	bad := &errdetails.BadRequest{}
	for _, v := range violations[:min(len(violations), maxViolations)] {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: cut(valid(v.Field), maxValueBytes), Description: cut(valid(v.Description), maxValueBytes),
		})
	}
	return bad
}

// printable copies metadata with every text made valid: protobuf refuses others, and the whole status would be lost.
func printable(meta map[string]string) map[string]string {
	if len(meta) == 0 {
		return nil
	}
	out := make(map[string]string, len(meta))
	for key, value := range meta {
		out[valid(key)] = valid(value)
	}
	return out
}

// valid replaces what is not UTF-8 by U+FFFD.
func valid(text string) string { return strings.ToValidUTF8(text, "�") }

// cut shortens text to at most n bytes, between characters, with a mark.
func cut(text string, n int) string {
	const mark = "…"
	if len(text) <= n {
		return text
	}
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + mark
}
