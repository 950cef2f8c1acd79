// Package errdefs holds the error classes of Gantry and the one typed error that every part of it returns.
//
// A class is a sentinel for [errors.Is]; there is one for each gRPC code that Gantry uses, so an error keeps its class
// when it crosses the wire (package errgrpc). A reason is a word from the ErrorReason enum of a proto package, without
// the ERROR_REASON_ prefix; the domain is the name of that proto package. Class, domain, reason, message, metadata and
// the time to retry are public: the caller sees them. The cause is private: it is for the log and never leaves the
// process.
package errdefs

import (
	"context"
	"errors"
)

// DomainCommon is the domain of the reasons that every service shares.
const DomainCommon = "gantry.common.v1"

// ReasonUnimplemented is the reason of a method that this server does not offer, in [DomainCommon]. A service that offers
// the method and refuses a variant of it has a reason of its own.
const ReasonUnimplemented = "METHOD_UNIMPLEMENTED"

// The classes. Test for them with [errors.Is]; make errors of a class with [New].
var (
	// ErrInvalidArgument: the request is wrong whatever the state of the system. Do not retry.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotFound: the thing does not exist, or the caller may not know that it does.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: the thing that was to be created exists.
	ErrAlreadyExists = errors.New("already exists")
	// ErrPermissionDenied: the caller is known and may not do this.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrUnauthenticated: the caller is not known: no credential, or one that does not verify.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrFailedPrecondition: the state must change before this can work. Do not retry unchanged.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrAborted: somebody else was faster (revision, epoch, effect). Read again, then decide.
	ErrAborted = errors.New("aborted")
	// ErrOutOfRange: past the end of what exists now.
	ErrOutOfRange = errors.New("out of range")
	// ErrResourceExhausted: a quota, a cap or a rate is reached. Retry after the stated time, if one is stated.
	ErrResourceExhausted = errors.New("resource exhausted")
	// ErrUnimplemented: this implementer does not offer the operation.
	ErrUnimplemented = errors.New("unimplemented")
	// ErrUnavailable: the service or its store cannot be reached now. Retry with backoff.
	ErrUnavailable = errors.New("unavailable")
	// ErrDeadlineExceeded: the time ran out; whether the work was done is unknown.
	ErrDeadlineExceeded = errors.New("deadline exceeded")
	// ErrCanceled: the caller went away or asked to stop.
	ErrCanceled = errors.New("canceled")
	// ErrDataLoss: stored data is damaged or gone.
	ErrDataLoss = errors.New("data loss")
	// ErrInternal: a fault of Gantry. Every error without a class counts as this one.
	ErrInternal = errors.New("internal")
)

// classes lists every class, in the order of the gRPC codes' use in the documentation above.
var classes = []error{
	ErrInvalidArgument, ErrNotFound, ErrAlreadyExists, ErrPermissionDenied, ErrUnauthenticated,
	ErrFailedPrecondition, ErrAborted, ErrOutOfRange, ErrResourceExhausted, ErrUnimplemented,
	ErrUnavailable, ErrDeadlineExceeded, ErrCanceled, ErrDataLoss, ErrInternal,
}

// Classes returns every class. The slice is the caller's.
func Classes() []error { return append([]error(nil), classes...) }

// ClassOf returns the class of err: that of the outermost [Error] in its chain, else a class sentinel found in the
// chain, else [ErrCanceled] or [ErrDeadlineExceeded] for the context's errors, else [ErrInternal]. It returns nil for
// nil.
func ClassOf(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e.class()
	}
	for _, class := range classes {
		if errors.Is(err, class) {
			return class
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return ErrDeadlineExceeded
	}
	return ErrInternal
}

// ReasonOf returns the reason of the outermost [Error] in err's chain that has one, or "".
func ReasonOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Reason != "" {
			return e.Reason
		}
		err = e.cause
	}
	return ""
}
