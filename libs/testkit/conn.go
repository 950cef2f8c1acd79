package testkit

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// bufferSize of an in-memory connection; writers block when it is full, as on a wire.
const bufferSize = 1 << 20

// Serve starts a gRPC server in memory with what register puts on it, and returns a connection to it. Both end with the
// test. The server has no middleware: it is for testing one part alone.
func Serve(tb testing.TB, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) *grpc.ClientConn {
	tb.Helper()
	listener := bufconn.Listen(bufferSize)
	server := grpc.NewServer(options...)
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	tb.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
	})
	return dial(tb, "passthrough:///memory", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}))
}

// Dial connects to an address in plain text; the connection ends with the test.
func Dial(tb testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	return dial(tb, address, options...)
}

func dial(tb testing.TB, target string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		tb.Fatalf("dial %s: %v", target, err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Errorf("close the connection: %v", err)
		}
	})
	return conn
}
