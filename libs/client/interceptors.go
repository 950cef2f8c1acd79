package client

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/identity/idmeta"
)

// unary is the interceptor of unary calls. ours says that the other side is part of this Gantry.
func unary(ours bool) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, response any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		ctx, err := outgoing(ctx, ours)
		if err != nil {
			return err
		}
		if limit := timeoutOf(opts); limit > 0 {
			if _, has := ctx.Deadline(); !has {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
		}
		return errgrpc.FromStatus(invoke(ctx, method, request, response, cc, opts...))
	}
}

// stream is the interceptor of streams. They get no deadline: a watch is open for days.
func stream(ours bool) grpc.StreamClientInterceptor {
	return func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		ctx, err := outgoing(ctx, ours)
		if err != nil {
			return nil, err
		}
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, errgrpc.FromStatus(err)
		}
		return &clientStream{s}, nil
	}
}

// outgoing writes what the context knows about the call into its outgoing metadata. Metadata that the caller set by
// hand stays where the context says nothing.
func outgoing(ctx context.Context, ours bool) (context.Context, error) {
	id, known := identity.FromContext(ctx)
	if !ours {
		return foreign(ctx, id), nil
	}
	if known {
		var err error
		if ctx, err = idmeta.NewOutgoing(ctx, id); err != nil {
			return nil, err
		}
	}
	token := access.TokenFromContext(ctx)
	if md, _ := metadata.FromOutgoingContext(ctx); token == "" || len(md.Get(idmeta.KeyAuthorization)) > 0 {
		return ctx, nil
	}
	return metadata.AppendToOutgoingContext(ctx, idmeta.KeyAuthorization, "Bearer "+token), nil
}

// foreign sends the request id alone, by which logs of both sides can be joined.
func foreign(ctx context.Context, id identity.Identity) context.Context {
	if id.RequestID == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, idmeta.KeyRequestID, idmeta.Encode(id.RequestID))
}

// clientStream turns the errors of a stream back.
type clientStream struct{ grpc.ClientStream }

// Header returns the header or a typed error.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, errgrpc.FromStatus(err)
}

// SendMsg returns io.EOF when the stream has ended, as gRPC does; RecvMsg then tells why.
func (s *clientStream) SendMsg(m any) error { return errgrpc.FromStatus(s.ClientStream.SendMsg(m)) }

// RecvMsg returns io.EOF at the end, or a typed error.
func (s *clientStream) RecvMsg(m any) error { return errgrpc.FromStatus(s.ClientStream.RecvMsg(m)) }

// CloseSend ends the caller's direction.
func (s *clientStream) CloseSend() error { return errgrpc.FromStatus(s.ClientStream.CloseSend()) }
