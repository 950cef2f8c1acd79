package errdefs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Error is an error with a class and the public facts about it. Make one with [New]; do not change one after it was
// returned.
type Error struct {
	// Class is one of the sentinels of this package. Anything else counts as [ErrInternal].
	Class error
	// Domain is the proto package whose enum the reason is from, for example "gantry.filesystem.v1".
	Domain string
	// Reason is the machine-readable reason, for example "REVISION_CONFLICT". Empty: the class says it all.
	Reason string
	// Message is for people, in plain words, without anything private. Never the text of a driver.
	Message string
	// Meta holds machine-readable facts, for example the path or the limit.
	Meta map[string]string
	// RetryAfter is when a retry makes sense, counted from now. Zero: not stated.
	RetryAfter time.Duration
	// Violations say which fields of a request are wrong. Only for [ErrInvalidArgument].
	Violations []Violation

	cause error
}

// Violation is one field of a request that is wrong.
type Violation struct {
	// Field is the path of the field in the request, for example "edits[2].old_text". Empty: the request as a whole.
	Field string
	// Description says what is wrong and what would be right.
	Description string
}

// New returns an error of class. The format may hold one or more %w: the wrapped errors become the cause, which
// [errors.Is] and the log see, and their text is left out of the public message (with a separator such as ": " before
// it). The text of an error under another verb is left out as well; pass err.Error() where that text was written for
// the caller.
func New(class error, domain, reason, format string, args ...any) *Error {
	e := &Error{Class: class, Domain: domain, Reason: reason}
	if !strings.Contains(format, "%w") {
		e.Message = fmt.Sprintf(format, args...)
		return e
	}
	e.cause = unwrapOnly(fmt.Errorf(format, args...))
	e.Message = publicText(format, args)
	return e
}

// Wrap returns an error of class with a fixed message and a private cause.
func Wrap(cause, class error, domain, reason, message string) *Error {
	return &Error{Class: class, Domain: domain, Reason: reason, Message: message, cause: cause}
}

// Error gives the public message and then the cause. It is for logs; what the caller sees is Message alone.
func (e *Error) Error() string {
	message := e.Public()
	if e.cause == nil {
		return message
	}
	if message == "" {
		return e.cause.Error()
	}
	return message + ": " + e.cause.Error()
}

// Public returns the message, or the words of the class when there is none.
func (e *Error) Public() string {
	if e.Message != "" {
		return e.Message
	}
	return e.class().Error()
}

// Is holds for the class of the error, and for another [Error] with the same class, domain and reason. Errors of class
// [ErrCanceled] and [ErrDeadlineExceeded] are also the errors of package context, wherever the context ended.
func (e *Error) Is(target error) bool {
	if other, ok := target.(*Error); ok {
		return e.class() == other.class() && e.Domain == other.Domain && e.Reason == other.Reason
	}
	switch target {
	case context.Canceled:
		return e.class() == ErrCanceled
	case context.DeadlineExceeded:
		return e.class() == ErrDeadlineExceeded
	}
	return target == e.class()
}

// Unwrap returns the private cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// With returns the error with one more fact. The receiver is not changed.
func (e *Error) With(key, value string) *Error {
	c := *e
	c.Meta = maps.Clone(e.Meta)
	if c.Meta == nil {
		c.Meta = make(map[string]string, 1)
	}
	c.Meta[key] = value
	return &c
}

// RetryIn returns the error with the time after which a retry makes sense. The receiver is not changed.
func (e *Error) RetryIn(d time.Duration) *Error {
	c := *e
	c.RetryAfter = max(d, 0)
	return &c
}

// class returns the class, and [ErrInternal] for anything that is not one of the sentinels.
func (e *Error) class() error {
	for _, class := range classes {
		if e.Class == class {
			return class
		}
	}
	return ErrInternal
}

// unwrapOnly drops the text that fmt.Errorf composed and keeps what it wrapped.
func unwrapOnly(err error) error {
	switch wrapped := err.(type) {
	case interface{ Unwrap() error }:
		return wrapped.Unwrap()
	case interface{ Unwrap() []error }:
		return errors.Join(wrapped.Unwrap()...)
	}
	return nil
}

// hole stands for a wrapped error in the public text. It formats to nothing under every verb.
type hole struct{}

// Format implements [fmt.Formatter].
func (hole) Format(fmt.State, rune) {}

// publicText formats without the wrapped errors and removes the separators that they leave.
func publicText(format string, args []any) string {
	public := make([]any, len(args))
	for i, arg := range args {
		if _, isErr := arg.(error); isErr {
			public[i] = hole{}
			continue
		}
		public[i] = arg
	}
	text := fmt.Sprintf(strings.ReplaceAll(format, "%w", "%v"), public...)
	return strings.TrimRight(text, " :;,(")
}
