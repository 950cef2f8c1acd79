// Package client makes the connections by which one Gantry service calls another, and clients call any of them.
//
// A connection writes the identity of the context into the metadata of each call, carries the credential on, gives
// unary calls a deadline, and turns statuses back into errors of package errdefs. Whether the other side is in the same
// process is a matter of the address.
package client

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/gantry-agents/gantry/libs/inproc"
)

const (
	// DefaultTimeout ends a unary call whose context has no deadline. See [Timeout].
	DefaultTimeout = 5 * time.Minute
	// MaxMessageBytes is the largest message, in and out: the default of servers.
	MaxMessageBytes = 16 << 20

	keepAlive        = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
	connectTimeout   = 5 * time.Second
)

// reconnect is how long to wait between attempts to connect. gRPC's own maximum of two minutes would keep a service away
// from one that was restarted long ago.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// Dial returns a lazy connection to host:port, unix:/path or memory:NAME; only the last needs the network. Nothing is
// dialled before the first call. Calls to memory: wait for the server to come up; others fail with UNAVAILABLE when it
// is not there, and try again with backoff at the next call. Nothing is retried by itself: whether a call may be
// repeated is for the caller to know, who has effect ids.
//
// The identity of the context, its request id and effect id included, and the credential ([access.NewTokenContext],
// else the one of the call being served) go with every call. Options come after the defaults and replace them. Without
// other credentials the connection is plain text, for loopback and trusted networks.
func Dial(address string, network *inproc.Network, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return dial(address, network, []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unary(true)), grpc.WithChainStreamInterceptor(stream(true)),
	}, opts)
}

// DialForeign is [Dial] for a server that is not part of this Gantry, such as somebody's model or middleware service:
// neither identity nor credential is sent, only the request id.
func DialForeign(address string, network *inproc.Network, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return dial(address, network, []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unary(false)), grpc.WithChainStreamInterceptor(stream(false)),
	}, opts)
}

func dial(address string, network *inproc.Network, interceptors, opts []grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAliveTimeout}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}, interceptors...)
	all = append(all, opts...)
	name, inMemory := strings.CutPrefix(address, "memory:")
	if !inMemory {
		return grpc.NewClient(address, all...)
	}
	if network == nil {
		return nil, fmt.Errorf("client: address %s needs an in-memory network, which only services in one process share", address)
	}
	return network.Dial(name, all...)
}

// Timeout replaces [DefaultTimeout] for one call, or for a connection by grpc.WithDefaultCallOptions. Zero or less:
// none. A deadline of the context always counts.
func Timeout(d time.Duration) grpc.CallOption { return timeoutOption{limit: d} }

type timeoutOption struct {
	grpc.EmptyCallOption
	limit time.Duration
}

// timeoutOf returns the limit that the options state last.
func timeoutOf(opts []grpc.CallOption) time.Duration {
	limit := DefaultTimeout
	for _, opt := range opts {
		if own, ok := opt.(timeoutOption); ok {
			limit = own.limit
		}
	}
	return limit
}
