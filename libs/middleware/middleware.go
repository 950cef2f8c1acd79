// Package middleware is the chain of interceptors that every Gantry server has.
//
// An [Interceptor] is written once and works for unary calls and for streams; [Chain] adapts it to gRPC. The order of
// the chain, with the reason of each place, is in [Default].
package middleware

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Call is what interceptors know about the call at hand, and tell each other. One call has one; it is not used by
// several goroutines.
type Call struct {
	// Method is the full name, for example "/gantry.filesystem.v1.FilesystemService/Read".
	Method string
	// Stream says that the call is a stream in either direction.
	Stream bool
	// RequestID is set by the request id interceptor.
	RequestID string
	// Identity is set by the identity interceptor and completed by the access interceptor.
	Identity identity.Identity
}

// Interceptor is one concern of the chain. Either function may be nil.
type Interceptor struct {
	// Name is unique in a chain.
	Name string
	// Around runs around everything further in: it calls next at most once, with the context that the rest shall see.
	// For a stream, next returns when the stream ends.
	Around func(ctx context.Context, call *Call, next func(context.Context) error) error
	// Receive checks each message from the caller: the request of a unary call, every message of a stream. An error
	// ends the call.
	Receive func(ctx context.Context, call *Call, message any) error
}

// Chain is the interceptors of a server, outermost first, and the stats handlers that observe its transport. The zero
// value is a chain without any; it is as open as authentication mode none.
type Chain struct {
	// Interceptors are in order, outermost first.
	Interceptors []Interceptor
	// Stats observe every call, those that no interceptor sees included (tracing, metrics).
	Stats []stats.Handler
	// Access is the authenticator of the chain. A server looks at its mode before it binds an address.
	Access *access.Authenticator
}

// ServerOptions returns the chain as options of a gRPC server.
func (c Chain) ServerOptions() []grpc.ServerOption {
	opts := []grpc.ServerOption{grpc.UnaryInterceptor(c.Unary()), grpc.StreamInterceptor(c.Stream())}
	for _, handler := range c.Stats {
		opts = append(opts, grpc.StatsHandler(handler))
	}
	return opts
}

// Unary returns the chain for unary calls.
func (c Chain) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		call := &Call{Method: info.FullMethod}
		var response any
		err := c.run(ctx, call, 0, func(ctx context.Context) (err error) {
			response, err = handler(ctx, request)
			return err
		}, request)
		if err != nil {
			// An interceptor's own refusal has not passed the innermost one.
			return nil, errgrpc.ToStatus(err)
		}
		return response, nil
	}
}

// Stream returns the chain for streams.
func (c Chain) Stream() grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		call := &Call{Method: info.FullMethod, Stream: true}
		return errgrpc.ToStatus(c.run(stream.Context(), call, 0, func(ctx context.Context) error {
			wrapped := &serverStream{ServerStream: stream, ctx: ctx, call: call, chain: c}
			err := handler(server, wrapped)
			if wrapped.refused != nil {
				// The caller must learn what was wrong with its message, whatever the handler made of the failed
				// receive.
				return wrapped.refused
			}
			return err
		}, nil))
	}
}

// run runs the interceptors from the i-th on and then the handler. The request of a unary call is checked by each
// interceptor within its own Around.
func (c Chain) run(ctx context.Context, call *Call, i int, handler func(context.Context) error, request any) error {
	if i == len(c.Interceptors) {
		return handler(ctx)
	}
	interceptor := c.Interceptors[i]
	next := func(ctx context.Context) error {
		if interceptor.Receive != nil && request != nil {
			if err := interceptor.Receive(ctx, call, request); err != nil {
				return err
			}
		}
		return c.run(ctx, call, i+1, handler, request)
	}
	if interceptor.Around == nil {
		return next(ctx)
	}
	return interceptor.Around(ctx, call, next)
}

// serverStream carries the chain's context and checks what comes in. Receiving is for one goroutine at a time, as in
// gRPC.
type serverStream struct {
	grpc.ServerStream
	ctx     context.Context
	call    *Call
	chain   Chain
	refused error
}

// Context returns the context that the chain made.
func (s *serverStream) Context() context.Context { return s.ctx }

// RecvMsg receives a message and lets every interceptor check it. After a refusal it fails for good.
func (s *serverStream) RecvMsg(message any) error {
	if s.refused != nil {
		return s.refused
	}
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	for _, interceptor := range s.chain.Interceptors {
		if interceptor.Receive == nil {
			continue
		}
		if err := interceptor.Receive(s.ctx, s.call, message); err != nil {
			s.refused = err
			return err
		}
	}
	return nil
}
