// Package server runs a gRPC server of Gantry on TCP, a Unix socket or an in-memory network, with the same chain of
// interceptors, health service, limits and shutdown on each.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
)

// ErrOpenAddress is the error of a server without authentication on an address that others can reach.
var ErrOpenAddress = errors.New("authentication is off")

// maxHeaderBytes bounds the metadata of a call before it is even looked at. Gantry's own are at most 6 KiB, proxies and
// tracing add some.
const maxHeaderBytes = 64 << 10

// Server is a gRPC server. Register services on [Server.Registrar], then Start it.
type Server struct {
	cfg     Config
	address address
	network *inproc.Network
	grpc    *grpc.Server
	health  *health.Server
	access  *access.Authenticator

	mu       sync.Mutex
	listener net.Listener
	// served is closed when Serve has returned; serveErr is set before.
	served   chan struct{}
	serveErr error
	stopped  bool
	// stopping is closed when Stop is first called.
	stopping chan struct{}
}

type stoppingKey struct{}

// Stopping returns a channel that is closed when the server of the call begins to stop. Handlers of streams that live
// long select on it and end their stream in good order, so that nobody waits for the shutdown timeout. For a context
// that is not of a call it is nil: it never gets ready.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stoppingKey{}).(chan struct{})
	return stopping
}

// New returns a server that is not started. The network is only needed for memory:NAME. A chain without authentication
// (mode none) on an address that is not loopback is [ErrOpenAddress].
func New(cfg Config, chain middleware.Chain, network *inproc.Network) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	open := chain.Access == nil || chain.Access.Mode() == access.ModeNone
	if open && !a.private() {
		return nil, fmt.Errorf("server: %w, so address %s must be loopback, unix: or memory:; set auth-mode to jwt to serve others",
			ErrOpenAddress, cfg.Address)
	}
	if a.kind == memory && network == nil {
		return nil, fmt.Errorf("server: address %s needs an in-memory network, which only services in one process share", cfg.Address)
	}
	s := &Server{
		cfg: cfg, address: a, network: network, health: health.NewServer(), access: chain.Access,
		stopping: make(chan struct{}),
	}
	// A copy, since one chain may serve several servers.
	chain.Interceptors = append([]middleware.Interceptor{{
		Name: "stopping", Around: func(ctx context.Context, _ *middleware.Call, next func(context.Context) error) error {
			return next(context.WithValue(ctx, stoppingKey{}, s.stopping))
		},
	}}, chain.Interceptors...)
	opts := append(chain.ServerOptions(),
		grpc.MaxRecvMsgSize(cfg.MaxMessageBytes),
		grpc.MaxSendMsgSize(cfg.MaxMessageBytes),
		grpc.MaxConcurrentStreams(cfg.MaxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.KeepAlive, Timeout: cfg.KeepAliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: cfg.MinClientInterval, PermitWithoutStream: true}),
		// Handlers must have ended when Stop returns: they use stores that are closed next.
		grpc.WaitForHandlers(true),
	)
	s.grpc = grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if cfg.Reflection {
		reflection.Register(s.grpc)
	}
	return s, nil
}

// Registrar takes services, before Start.
func (s *Server) Registrar() grpc.ServiceRegistrar { return s.grpc }

// Start opens the address and serves in the background. It returns when callers can connect, or with an error that
// names the address. Every registered service and the server as a whole ("") are reported as serving.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return errors.New("server: stopped before it was started")
	case s.listener != nil:
		return errors.New("server: started already")
	}
	if s.access != nil {
		if names := s.access.Undeclared(s.grpc.GetServiceInfo()); len(names) > 0 {
			return fmt.Errorf("server: methods that do not declare who may call them (option gantry.common.v1.access): %s",
				strings.Join(names, ", "))
		}
	}
	l, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.listener = l
	served := make(chan struct{})
	s.served = served
	for service := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	go func() {
		defer close(served)
		if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.serveErr = fmt.Errorf("server: serve %s: %w", s.cfg.Address, err)
		}
	}()
	return nil
}

// Addr returns the address in the form of the settings, with the real port when port 0 was asked for. Before Start it
// is what the settings say.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil || s.address.kind != tcp {
		return s.cfg.Address
	}
	return s.listener.Addr().String()
}

// SetServing reports a service as serving or not. The service is its full proto name; "" is the server as a whole.
func (s *Server) SetServing(service string, ok bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if ok {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, status)
}

// Done is closed when a started server serves no more. It is nil before Start.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Err returns why the server serves no more, nil after Stop. Ask when [Server.Done] is closed.
func (s *Server) Err() error { return s.serveErr }

// Stop reports all services as not serving, takes no new calls, lets calls under way end within the shutdown timeout
// and within ctx, and cuts those that are left. Streams that live long are cut too unless their handlers watch
// [Stopping]. It may be called before Start, twice, and by many at once; all return when no handler runs any more, or
// with an error when one ignores for 5 seconds that its context has ended.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
	}
	served := s.served
	s.mu.Unlock()

	s.health.Shutdown()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.grpc.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-ctx.Done():
		if err := s.cut(graceful); err != nil {
			return err
		}
	}
	if served == nil {
		return nil
	}
	<-served
	return s.serveErr
}

// cutTimeout is how long a handler may take to notice that its context has ended.
const cutTimeout = 5 * time.Second

// cut ends the calls that are left and waits for their handlers.
func (s *Server) cut(graceful <-chan struct{}) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.grpc.Stop()
		<-graceful
	}()
	timer := time.NewTimer(cutTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return fmt.Errorf("server: %s: handlers still run %s after they were told to end", s.cfg.Address, cutTimeout)
	}
}
