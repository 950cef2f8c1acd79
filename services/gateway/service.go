package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/gateway/internal/rest"
)

// headerTimeout bounds how long a caller may take to send the head of its request.
const headerTimeout = 10 * time.Second

// Deps are the services behind the gateway. All connections are required; the gateway does not close them.
type Deps struct {
	Orchestrator, Workspace, Threads, Memory, Sandbox, Tasks grpc.ClientConnInterface
	// Authenticated says that the services ask clients for a credential. Otherwise the gateway serves loopback addresses only.
	Authenticated bool
	Logger        *slog.Logger // nil: none
}

// Service is the gateway.
type Service struct {
	cfg    Config
	log    *slog.Logger
	http   *http.Server
	ln     net.Listener
	served chan struct{}
}

// New builds the gateway. It serves nothing before Start.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	open, err := server.Open(cfg.HTTPAddress)
	if err != nil {
		return nil, err
	}
	if open && !deps.Authenticated {
		return nil, fmt.Errorf("gateway: %w, so http-address %s must be loopback; set auth-mode to jwt to serve others", server.ErrOpenAddress, cfg.HTTPAddress)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	handler, err := rest.Handler(ctx, rest.Config{
		Address: cfg.HTTPAddress, AllowedHosts: cfg.AllowedHosts, AllowedOrigins: cfg.AllowedOrigins, MaxRequestBytes: cfg.MaxRequestBytes,
	}, rest.Upstream{
		Orchestrator: deps.Orchestrator, Workspace: deps.Workspace, Threads: deps.Threads, Memory: deps.Memory, Sandbox: deps.Sandbox, Tasks: deps.Tasks,
	})
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, log: deps.Logger, served: make(chan struct{}), http: &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: cfg.IdleTimeout,
		ErrorLog: slog.NewLogLogger(deps.Logger.Handler(), slog.LevelWarn),
	}}, nil
}

// Handler is what the gateway serves, for a server of one's own.
func (s *Service) Handler() http.Handler { return s.http.Handler }

// Register adds nothing: the gateway has no RPCs of its own. Its gRPC address answers health checks.
func (s *Service) Register(grpc.ServiceRegistrar) {}

// Start opens the address and serves in the background.
func (s *Service) Start(ctx context.Context) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.HTTPAddress)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("gateway: %s is in use by another program: stop that one, or choose another address with --http-address", s.cfg.HTTPAddress)
	}
	if err != nil {
		return fmt.Errorf("gateway: http-address %s: %w", s.cfg.HTTPAddress, err)
	}
	s.ln = ln
	go func() {
		defer close(s.served)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("http server ended", "error", err)
		}
	}()
	s.log.Info("serving http", "address", ln.Addr().String())
	return nil
}

// Addr is the address in use, once started.
func (s *Service) Addr() string {
	if s.ln == nil {
		return ""
	}
	return s.ln.Addr().String()
}

// Stop ends requests gracefully, then by force when the time is up. It may be called twice, and before Start.
func (s *Service) Stop(ctx context.Context) error {
	if s.ln == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ShutdownTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		// Streams live as long as their callers: cutting them is the normal end.
		if err := s.http.Close(); err != nil {
			return fmt.Errorf("gateway: close: %w", err)
		}
	}
	<-s.served
	return nil
}
