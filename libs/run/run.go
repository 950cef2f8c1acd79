// Package run is the main function of every service: it reads the settings, sets up logs, traces and metrics, builds
// and serves the service, and stops it when a signal comes.
//
// With it, the main.go of a service says what the service is and nothing else:
//
//	func main() {
//		os.Exit(run.Main(run.Spec[memory.Config]{
//			Name: "memory", Description: "Gantry's memory service.", Address: "127.0.0.1:7403",
//			New: func(ctx context.Context, cfg memory.Config, env run.Env) (run.Service, error) {
//				return memory.New(ctx, cfg, memory.Deps{Logger: env.Logger})
//			},
//		}))
//	}
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/lifecycle"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/obs"
	"github.com/gantry-agents/gantry/libs/server"
)

// The exit codes of a service.
const (
	// ExitOK: it was asked to stop and stopped cleanly, or printed what it was asked to print.
	ExitOK = 0
	// ExitFailed: it could not start, or failed while it ran.
	ExitFailed = 1
	// ExitSettings: the settings are wrong; the line on the standard error says which one.
	ExitSettings = 2
)

// obsTimeout bounds the sending of the last traces.
const obsTimeout = 5 * time.Second

// Service is what a service's root package makes.
type Service interface {
	// Register adds the service's RPCs. It is called before Start.
	Register(grpc.ServiceRegistrar)
	// Start returns when the service can take calls.
	Start(ctx context.Context) error
	// Stop returns when all work of the service has ended. It is called once, after a Start that succeeded.
	Stop(ctx context.Context) error
}

// Drainer is a service whose calls may wait for something to happen. Drain makes them answer with what there is; it is called before the server stops.
type Drainer interface{ Drain() }

// Env is what a service gets from its surroundings.
type Env struct {
	// Logger writes the log.
	Logger *slog.Logger
	// Obs makes tracers and meters.
	Obs *obs.Obs
	// AuthMode is how clients prove who they are, for services that listen beside gRPC.
	AuthMode access.Mode
	// Dial connects to another service of this Gantry, with tracing; the connection is closed after the service has
	// stopped.
	Dial func(address string) (*grpc.ClientConn, error)
}

// Spec says what a service is. C is its settings, a struct with kong tags; if it has a Validate() error method, that is
// called.
type Spec[C any] struct {
	// Name is the program's name, for example "memory".
	Name string
	// Description is the first line of the help.
	Description string
	// Address is the default address to serve on.
	Address string
	// New builds the service. When it fails, it leaves nothing open. An error of type [config.Error] counts as a wrong
	// setting.
	New func(ctx context.Context, cfg C, env Env) (Service, error)
}

// Common are the settings that every service has.
type Common struct {
	Server server.Config `embed:""`
	Auth   access.Config `embed:"" prefix:"auth-"`
	Obs    obs.Config    `embed:""`
	Debug  DebugConfig   `embed:"" prefix:"debug-"`
}

// Main runs the service with the process's arguments, environment and signals, and returns the exit code. A second
// signal ends the process at once.
func Main[C any](spec Spec[C]) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		// Before anything stops, so that from now on a signal has its usual effect.
		signal.Stop(signals)
		cancel()
	}()
	return Run(ctx, spec, os.Args[1:], config.Options{}, os.Stderr)
}

// Run is [Main] with everything stated: the service runs until ctx ends. The log goes to w.
func Run[C any](ctx context.Context, spec Spec[C], args []string, opts config.Options, w io.Writer) int {
	var settings struct {
		Common  `embed:""`
		Service C    `embed:""`
		Health  bool `help:"Ask the service that runs with these settings whether it serves, and exit with 0 or 1." hidden:"" env:"-"`
	}
	opts.Name, opts.Description = spec.Name, spec.Description
	opts.Kong = append(opts.Kong, kong.Vars{"address": spec.Address})
	err := config.Load(&settings, args, opts)
	if err == nil {
		err = validate(settings.Common, settings.Service)
	}
	switch {
	case err != nil:
	case settings.Health:
		err = askHealth(ctx, settings.Server.Address)
	default:
		err = serve(ctx, spec, settings.Common, settings.Service, w)
	}
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(w, "%s: %s\n", spec.Name, oneLine(err))
	var wrong *config.Error
	if errors.As(err, &wrong) || errors.Is(err, server.ErrOpenAddress) {
		return ExitSettings
	}
	return ExitFailed
}

// validate asks every group of settings.
func validate(common Common, service any) error {
	for _, group := range []any{common.Server, common.Auth, common.Obs, common.Debug, service} {
		v, ok := group.(interface{ Validate() error })
		if !ok {
			continue
		}
		if err := v.Validate(); err != nil {
			return &config.Error{Err: err}
		}
	}
	return nil
}

// serve builds everything, runs it until ctx ends or the server fails, and stops it in reverse.
func serve[C any](ctx context.Context, spec Spec[C], common Common, cfg C, w io.Writer) (err error) {
	var undo lifecycle.Closers
	defer func() {
		err = errors.Join(err, undo.Close(context.WithoutCancel(ctx)))
	}()
	o, err := obs.Setup(ctx, common.Obs, spec.Name, w)
	if err != nil {
		return err
	}
	undo.Push("obs", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, obsTimeout)
		defer cancel()
		return o.Shutdown(ctx)
	})
	grpcServer, err := newServer(common, o)
	if err != nil {
		return err
	}
	env := Env{Logger: o.Logger, Obs: o, AuthMode: common.Auth.Mode, Dial: func(address string) (*grpc.ClientConn, error) {
		conn, err := client.Dial(address, nil, o.DialOptions()...)
		if err == nil {
			undo.PushCloser("connection to "+address, conn)
		}
		return conn, err
	}}
	service, err := spec.New(ctx, cfg, env)
	if err != nil {
		return err
	}
	service.Register(grpcServer.Registrar())

	var parts lifecycle.Group
	parts.Add(lifecycle.Part{Name: spec.Name, Start: service.Start, Stop: service.Stop, StopTimeout: common.Server.ShutdownTimeout})
	parts.Add(lifecycle.Part{Name: "server", Start: grpcServer.Start, Stop: grpcServer.Stop, StopTimeout: common.Server.ShutdownTimeout + obsTimeout})
	if d, ok := service.(Drainer); ok {
		// Added last, so stopped first: the server waits for its calls, and some calls wait for the service.
		parts.Add(lifecycle.Part{Name: "drain", Stop: func(context.Context) error { d.Drain(); return nil }})
	}
	debug := newDebugServer(common.Debug, o, grpcServer)
	parts.Add(lifecycle.Part{Name: "debug", Start: debug.Start, Stop: debug.Stop})
	if err := parts.Start(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	o.Logger.Info("serving", "address", grpcServer.Addr(), "auth", string(common.Auth.Mode))
	select {
	case <-ctx.Done():
		o.Logger.Info("stopping")
	case <-grpcServer.Done():
		err = grpcServer.Err()
	}
	return errors.Join(err, parts.Stop(context.WithoutCancel(ctx)))
}

// newServer makes the server with the default chain.
func newServer(common Common, o *obs.Obs) (*server.Server, error) {
	auth, err := access.New(common.Auth, access.Options{})
	if err != nil {
		return nil, &config.Error{Err: err}
	}
	chain, err := middleware.Default(middleware.Options{Access: auth, Logger: o.Logger, Stats: o.ServerStats()})
	if err != nil {
		return nil, err
	}
	return server.New(common.Server, chain, nil)
}
