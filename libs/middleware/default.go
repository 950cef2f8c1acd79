package middleware

import (
	"errors"
	"log/slog"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc/stats"

	"github.com/gantry-agents/gantry/libs/access"
)

// DefaultTimeout ends a unary call whose caller set no deadline.
const DefaultTimeout = 5 * time.Minute

// Options are what the default chain is made of.
type Options struct {
	// Access decides who may call. Required.
	Access *access.Authenticator
	// Logger gets a line for each call. Nil: none.
	Logger *slog.Logger
	// Validator checks messages against the rules in their protos. Nil: one that compiles the rules of each message
	// when it is first seen.
	Validator protovalidate.Validator
	// Timeout ends a unary call whose caller set no deadline. Zero: [DefaultTimeout]. Negative: none.
	Timeout time.Duration
	// Timeouts replace Timeout for single methods, by full name. Zero or negative: none.
	Timeouts map[string]time.Duration
	// Stats observe the transport: tracing and metrics.
	Stats []stats.Handler
}

// Default returns the chain of every Gantry server, outermost first. Tracing is a stats handler, so it lies outside of
// all.
//
//  1. recover: outermost of ours, so that a panic of any other interceptor ends the call and not the process.
//  2. request id: before the first line of log and the first refusal, which both name it.
//  3. log: around every refusal below, for a denied call is what an operator looks for; inside of request id, whose id
//     it prints.
//  4. identity: before access, which holds the identity against the credential.
//  5. access: before any work is done for a stranger; it decodes a token and no more.
//  6. deadline: time counts for work that is allowed.
//  7. validate: after access, so that strangers learn nothing of what a valid request looks like; before the handler,
//     which relies on it.
//  8. errors: innermost, so that everything outside sees what the caller will see, and the cause beside it.
func Default(o Options) (Chain, error) {
	if o.Access == nil {
		return Chain{}, errors.New("middleware: the default chain needs an authenticator")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Validator == nil {
		o.Validator = protovalidate.GlobalValidator
	}
	return Chain{
		Interceptors: []Interceptor{
			Recover(o.Logger),
			RequestID(),
			Log(o.Logger),
			Identity(),
			Access(o.Access),
			Deadline(o.Timeout, o.Timeouts),
			Validate(o.Validator),
			Errors(),
		},
		Stats:  o.Stats,
		Access: o.Access,
	}, nil
}
