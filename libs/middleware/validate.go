package middleware

import (
	"context"
	"errors"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// ReasonRequestInvalid is the reason of a message that breaks the rules in its proto.
const ReasonRequestInvalid = "REQUEST_INVALID"

// Validate holds every message from the caller against the rules in its proto. The error lists the fields that are
// wrong.
func Validate(validator protovalidate.Validator) Interceptor {
	return Interceptor{Name: "validate", Receive: func(_ context.Context, _ *Call, message any) error {
		m, ok := message.(proto.Message)
		if !ok {
			return nil
		}
		return invalid(validator.Validate(m))
	}}
}

// invalid turns the validator's error into a typed one.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	var found *protovalidate.ValidationError
	if !errors.As(err, &found) || len(found.Violations) == 0 {
		// The rules themselves are broken: a fault of ours.
		return errdefs.New(errdefs.ErrInternal, errdefs.DomainCommon, "", "the request cannot be checked: %w", err)
	}
	violations := make([]errdefs.Violation, len(found.Violations))
	for i, v := range found.Violations {
		violations[i] = errdefs.Violation{Field: protovalidate.FieldPathString(v.Proto.GetField()), Description: v.Proto.GetMessage()}
	}
	first := violations[0]
	text := first.Description
	if first.Field != "" {
		text = first.Field + ": " + text
	}
	e := errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonRequestInvalid, "%s", text)
	e.Violations = violations
	return e
}
