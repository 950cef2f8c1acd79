package model

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Domain is the domain of the errors of this package.
const Domain = "gantry.model.v1"

// Kind says what went wrong in terms of what a caller can do about it.
type Kind uint8

// The kinds.
const (
	KindInternal        Kind = iota // the provider broke its own protocol
	KindBadRequest                  // the request is at fault and will be again
	KindUnknownModel                // no such model
	KindUnsupported                 // the provider or the model does not offer this at all
	KindAuth                        // no credential or not this one
	KindRateLimited                 // come again later
	KindOverloaded                  // the other end is too busy
	KindUnavailable                 // not reached, or the connection broke
	KindTimeout                     // no first byte, or silence for too long
	KindContextOverflow             // the input does not fit the window; compact and try again
)

// kinds holds, for each kind, its error class, its public reason, and whether the same request may succeed later.
var kinds = [...]struct {
	class     error
	reason    string
	retryable bool
}{
	KindInternal:        {errdefs.ErrInternal, "MODEL_PROTOCOL", false},
	KindBadRequest:      {errdefs.ErrInvalidArgument, "MODEL_BAD_REQUEST", false},
	KindUnknownModel:    {errdefs.ErrNotFound, "MODEL_UNKNOWN", false},
	KindUnsupported:     {errdefs.ErrUnimplemented, "MODEL_UNSUPPORTED", false},
	KindAuth:            {errdefs.ErrFailedPrecondition, "MODEL_AUTH", false},
	KindRateLimited:     {errdefs.ErrResourceExhausted, "MODEL_RATE_LIMITED", true},
	KindOverloaded:      {errdefs.ErrUnavailable, "MODEL_OVERLOADED", true},
	KindUnavailable:     {errdefs.ErrUnavailable, "MODEL_UNAVAILABLE", true},
	KindTimeout:         {errdefs.ErrDeadlineExceeded, "MODEL_TIMEOUT", true},
	KindContextOverflow: {errdefs.ErrOutOfRange, "MODEL_CONTEXT_OVERFLOW", false},
}

// String is the public reason of the kind.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kinds[k].reason
}

// Error is the failure of a provider. It unwraps to an *errdefs.Error, so its class and reason cross a service boundary.
//
// The class of KindAuth is FAILED_PRECONDITION and not UNAUTHENTICATED: the credential that fails is Gantry's towards
// the provider and not the caller's towards Gantry.
type Error struct {
	Kind     Kind
	Provider string
	Model    string
	public   *errdefs.Error
}

// NewError makes an error of a kind. The message is public: it says what the provider said, without credentials. A cause
// given by %w is kept for logs.
func NewError(kind Kind, provider, model, format string, args ...any) *Error {
	k := kinds[kind]
	public := errdefs.New(k.class, Domain, k.reason, format, args...)
	if provider != "" {
		public = public.With("provider", provider)
	}
	if model != "" {
		public = public.With("model", model)
	}
	return &Error{Kind: kind, Provider: provider, Model: model, public: public}
}

// After says that it makes no sense to try again before d has passed.
func (e *Error) After(d time.Duration) *Error {
	e.public = e.public.RetryIn(d)
	return e
}

// Retryable says whether the same request may succeed later.
func (e *Error) Retryable() bool { return kinds[e.Kind].retryable }

// RetryAfter is the wait that the provider asked for, 0 when it asked for none.
func (e *Error) RetryAfter() time.Duration { return e.public.RetryAfter }

func (e *Error) Error() string { return e.public.Error() }

// Unwrap gives the public error, which carries class, reason and cause.
func (e *Error) Unwrap() error { return e.public }

// KindOf finds the kind of an error; ok is false when the error is no *Error.
func KindOf(err error) (kind Kind, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Kind, true
}

// Retryable says whether err is an *Error of a kind that may pass.
func Retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Retryable()
}

func badRequest(format string, args ...any) *Error {
	return NewError(KindBadRequest, "", "", format, args...)
}
