// Package localconn calls a service of this very process by its generated client, without a network: the context of the caller is the context of the handler,
// so identity, bucket and credential need no metadata. Messages are copied, never shared.
package localconn

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// New returns a connection to the implementation of one service.
func New(desc *grpc.ServiceDesc, impl any) grpc.ClientConnInterface {
	c := &conn{impl: impl, unary: map[string]grpc.MethodDesc{}, streams: map[string]grpc.StreamDesc{}}
	for _, m := range desc.Methods {
		c.unary["/"+desc.ServiceName+"/"+m.MethodName] = m
	}
	for _, s := range desc.Streams {
		c.streams["/"+desc.ServiceName+"/"+s.StreamName] = s
	}
	return c
}

type conn struct {
	impl    any
	unary   map[string]grpc.MethodDesc
	streams map[string]grpc.StreamDesc
}

func (c *conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	m, ok := c.unary[method]
	if !ok {
		return unknown(method)
	}
	out, err := m.Handler(c.impl, ctx, func(in any) error { return copyInto(in, args) }, nil)
	if err != nil {
		return err
	}
	return copyInto(reply, out)
}

func (c *conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s, ok := c.streams[method]
	if !ok {
		return nil, unknown(method)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pipe{ctx: ctx, cancel: cancel, up: make(chan proto.Message), down: make(chan proto.Message), done: make(chan struct{})}
	go func() {
		p.err = s.Handler(c.impl, server{p})
		close(p.done)
	}()
	return client{p}, nil
}

func unknown(method string) error {
	return errdefs.New(errdefs.ErrUnimplemented, errdefs.DomainCommon, "", "no such method: %s", method)
}

func copyInto(to, from any) error {
	proto.Reset(to.(proto.Message))
	proto.Merge(to.(proto.Message), from.(proto.Message))
	return nil
}

// pipe joins the two ends of a stream.
type pipe struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	up, down chan proto.Message
	closeUp  sync.Once
	done     chan struct{}
	err      error // set before done is closed
}

// client is the caller's end.
type client struct{ p *pipe }

func (c client) Header() (metadata.MD, error) { return nil, nil }
func (c client) Trailer() metadata.MD         { return nil }
func (c client) Context() context.Context     { return c.p.ctx }

func (c client) CloseSend() error {
	c.p.closeUp.Do(func() { close(c.p.up) })
	return nil
}

func (c client) SendMsg(m any) error {
	select {
	case c.p.up <- proto.Clone(m.(proto.Message)):
		return nil
	case <-c.p.done:
		return io.EOF
	case <-c.p.ctx.Done():
		return context.Cause(c.p.ctx)
	}
}

func (c client) RecvMsg(m any) error {
	select {
	case msg := <-c.p.down:
		return copyInto(m, msg)
	case <-c.p.ctx.Done():
		select {
		case <-c.p.done: // it had ended before; the end is told as often as it is asked for
		default:
			return context.Cause(c.p.ctx)
		}
	case <-c.p.done:
	}
	if c.p.err != nil {
		return c.p.err
	}
	c.p.cancel(nil)
	return io.EOF
}

// server is the handler's end.
type server struct{ p *pipe }

func (s server) SetHeader(metadata.MD) error  { return nil }
func (s server) SendHeader(metadata.MD) error { return nil }
func (s server) SetTrailer(metadata.MD)       {}
func (s server) Context() context.Context     { return s.p.ctx }

func (s server) SendMsg(m any) error {
	select {
	case s.p.down <- proto.Clone(m.(proto.Message)):
		return nil
	case <-s.p.ctx.Done():
		return context.Cause(s.p.ctx)
	}
}

func (s server) RecvMsg(m any) error {
	select {
	case msg, ok := <-s.p.up:
		if !ok {
			return io.EOF
		}
		return copyInto(m, msg)
	case <-s.p.ctx.Done():
		return context.Cause(s.p.ctx)
	}
}
