package bench

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// echoMethod is the one method of the bare server.
const echoMethod = "/gantry.bench.Echo/Echo"

// echoService answers what it is asked, without a middleware, a check or a log.
var echoService = grpc.ServiceDesc{
	ServiceName: "gantry.bench.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &wrapperspb.StringValue{}
			return in, decode(in)
		},
	}},
}

// echoes measures the bare server over each transport.
func (b *bencher) echoes(ctx context.Context, _ string) error {
	buffer := bufconn.Listen(1 << 20)
	loopback, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for _, over := range []struct {
		transport transport
		listener  net.Listener
		target    string
		options   []grpc.DialOption
	}{
		{memory, buffer, "passthrough:///echo", []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return buffer.DialContext(ctx)
		})}},
		{tcp, loopback, loopback.Addr().String(), nil},
	} {
		us, n, err := b.echoOver(ctx, over.listener, over.target, over.options)
		if err != nil {
			return err
		}
		b.echo[over.transport] = us
		b.line("echo_"+string(over.transport), us, n, "bare grpc-go, 16 bytes")
		b.report.Tell("echo_"+string(over.transport)+"_us", round(us))
	}
	return nil
}

func (b *bencher) echoOver(ctx context.Context, l net.Listener, target string, options []grpc.DialOption) (us float64, n int, err error) {
	server := grpc.NewServer()
	server.RegisterService(&echoService, struct{}{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		err = errors.Join(err, <-served)
	}()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	in, out := wrapperspb.String("sixteen bytes..."), &wrapperspb.StringValue{}
	return median(ctx, b.opts.Time, func(ctx context.Context) error { return conn.Invoke(ctx, echoMethod, in, out) })
}
