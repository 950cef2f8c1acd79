// Package suite runs all services of Gantry in one process.
//
// Each service has a server of its own in memory, with the full chain of interceptors, and knows the others by connections
// to those servers: it can't tell that they are near. One public server offers all of them at one address; there,
// FilesystemService is the orchestrator's router, which knows where an agent's files are.
package suite

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/lifecycle"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/gateway"
)

// Names of the services, and of their connections.
const (
	Workspace    = "workspace"
	Memory       = "memory"
	Sandbox      = "sandbox"
	Task         = "task"
	Orchestrator = "orchestrator"
)

// Options are what a suite gets beside its settings.
type Options struct {
	// Logger gets the log. Nil: none.
	Logger *slog.Logger
	// Private serves no address: only this process reaches the suite.
	Private bool
	// Replace puts another implementation in the place of a service, by its name. The suite does not close it.
	Replace map[string]grpc.ClientConnInterface
}

// Suite is a suite that runs.
type Suite struct {
	cfg     Config
	log     *slog.Logger
	network *inproc.Network
	auth    *access.Authenticator
	minter  *access.Minter
	conns   map[string]grpc.ClientConnInterface
	closers lifecycle.Closers // connections, last
	parts   lifecycle.Group
	public  *server.Server
	gateway *gateway.Service
}

// Start builds and starts everything. When it fails, nothing is left running.
func Start(ctx context.Context, cfg Config, opts Options) (_ *Suite, err error) {
	if !opts.Private {
		if err := cfg.free(ctx); err != nil {
			return nil, err
		}
	}
	if err := cfg.prepare(); err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Suite{cfg: cfg, log: opts.Logger, network: inproc.New(), conns: map[string]grpc.ClientConnInterface{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closers.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err := s.authenticate(); err != nil {
		return nil, err
	}
	if err := s.connect(opts.Replace); err != nil {
		return nil, err
	}
	if err := s.build(ctx, opts); err != nil {
		return nil, err
	}
	if err := s.parts.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// authenticate makes the keys of this process: capabilities are minted and checked in one process too.
func (s *Suite) authenticate() (err error) {
	if s.minter, err = access.NewMinter(nil, nil); err != nil {
		return err
	}
	s.auth, err = access.New(s.cfg.Auth, access.Options{KeySet: s.minter.KeySet()})
	return err
}

// connect makes a connection for each service. They are made before the servers: the order of start does not matter.
func (s *Suite) connect(replace map[string]grpc.ClientConnInterface) error {
	for _, name := range []string{Workspace, Memory, Sandbox, Task, Orchestrator} {
		if other, ok := replace[name]; ok {
			s.conns[name] = other
			continue
		}
		conn, err := client.Dial("memory:"+name, s.network)
		if err != nil {
			return err
		}
		s.closers.PushCloser("connection to "+name, conn)
		s.conns[name] = conn
	}
	return nil
}

// serve makes a server for registrations and adds it to the parts.
func (s *Suite) serve(address string, register ...func(grpc.ServiceRegistrar)) (*server.Server, error) {
	chain, err := middleware.Default(middleware.Options{Access: s.auth, Logger: s.log})
	if err != nil {
		return nil, err
	}
	srv, err := server.New(server.Config{Address: address, Reflection: true}, chain, s.network)
	if err != nil {
		return nil, err
	}
	for _, r := range register {
		r(srv.Registrar())
	}
	s.parts.Add(lifecycle.Part{Name: "server " + address, Start: srv.Start, Stop: srv.Stop, StopTimeout: stopTimeout})
	return srv, nil
}

// Conn is the connection to a service.
func (s *Suite) Conn(name string) grpc.ClientConnInterface { return s.conns[name] }

// Data is the data directory.
func (s *Suite) Data() string { return s.cfg.Data }

// Address is that of the public gRPC server. Empty: private.
func (s *Suite) Address() string {
	if s.public == nil {
		return ""
	}
	return s.public.Addr()
}

// HTTPAddress is that of the gateway. Empty: none.
func (s *Suite) HTTPAddress() string {
	if s.gateway == nil {
		return ""
	}
	return s.gateway.Addr()
}

// Done is closed when the public server ends by itself. Nil when the suite is private.
func (s *Suite) Done() <-chan struct{} {
	if s.public == nil {
		return nil
	}
	return s.public.Done()
}

// Stop ends everything in reverse: no new calls, then the services, then the connections. It may be called twice.
func (s *Suite) Stop(ctx context.Context) error {
	return errors.Join(s.parts.Stop(ctx), s.closers.Close(ctx))
}

// Model names the default model.
func (s *Suite) Model(ctx context.Context) string {
	got, err := orchestratorv1.NewAgentServiceClient(s.conns[Orchestrator]).ListModels(ctx, &orchestratorv1.ListModelsRequest{})
	if err != nil {
		return "unknown"
	}
	for _, m := range got.GetModels() {
		if m.GetIsDefault() {
			return m.GetName()
		}
	}
	return "none"
}
