// Package inproc connects services of one process by name, over in-memory listeners.
//
// A call goes through gRPC in full: interceptors, metadata, deadlines, status details, size limits and streaming are
// those of the wire, and messages are never shared by pointer. What is saved is ports, not time. A connection may be
// dialled before the listener exists; calls wait for it.
package inproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// bufferBytes is the buffer of each direction of a connection: four of HTTP/2's default windows.
const bufferBytes = 256 << 10

// Network is a set of in-memory listeners. Its zero value is not usable; make one with [New].
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	// changed is closed and replaced whenever a listener appears.
	changed chan struct{}
}

// New returns an empty network.
func New() *Network {
	return &Network{listeners: make(map[string]*listener), changed: make(chan struct{})}
}

// Listen opens the listener of that name. A name that is taken is an error; it becomes free when the listener is
// closed.
func (n *Network) Listen(name string) (net.Listener, error) {
	if name == "" {
		return nil, errors.New("inproc: the name of a listener is empty")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, taken := n.listeners[name]; taken {
		return nil, fmt.Errorf("inproc: memory:%s is in use", name)
	}
	l := &listener{Listener: bufconn.Listen(bufferBytes), name: name, network: n}
	n.listeners[name] = l
	close(n.changed)
	n.changed = make(chan struct{})
	return l, nil
}

// Dial returns a lazy connection to the listener of that name, which need not exist yet: calls wait for it until their
// deadline, unless they ask not to.
func (n *Network) Dial(name string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if name == "" {
		return nil, errors.New("inproc: the name to dial is empty")
	}
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
	}, opts...)
	all = append(all, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return n.connect(ctx, name)
	}))
	// passthrough: a bare name would go to the DNS resolver.
	return grpc.NewClient("passthrough:///"+name, all...)
}

// connect waits for the listener and connects to it.
func (n *Network) connect(ctx context.Context, name string) (net.Conn, error) {
	for {
		n.mu.Lock()
		l, changed := n.listeners[name], n.changed
		n.mu.Unlock()
		if l != nil {
			return l.DialContext(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("inproc: nobody listens on memory:%s: %w", name, ctx.Err())
		}
	}
}

// listener gives its name free when it is closed.
type listener struct {
	*bufconn.Listener
	name    string
	network *Network
	once    sync.Once
	err     error
}

// Close closes the listener. Later calls return what the first one returned.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.name)
		l.network.mu.Unlock()
		l.err = l.Listener.Close()
	})
	return l.err
}

// Addr returns the address, for logs: "memory:NAME".
func (l *listener) Addr() net.Addr { return addr(l.name) }

// addr is the address of an in-memory listener.
type addr string

// Network returns "memory".
func (addr) Network() string { return "memory" }

// String returns the address as settings have it.
func (a addr) String() string { return "memory:" + string(a) }
