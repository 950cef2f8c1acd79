package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/obs"
	"github.com/gantry-agents/gantry/libs/server"
)

// headerTimeout bounds how long a caller may take to send its request.
const headerTimeout = 5 * time.Second

// DebugConfig holds the settings of the HTTP listener for operators.
type DebugConfig struct {
	Address string `help:"Address to serve /metrics and /healthz on; on a loopback address /debug/pprof too. Empty: off."`
}

// Validate checks the address.
func (c DebugConfig) Validate() error {
	if c.Address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("run: debug-address %q is not host:port", c.Address)
	}
	return nil
}

// loopback says whether only this machine can reach the address.
func (c DebugConfig) loopback() bool {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// debugServer serves metrics, health and profiles over HTTP.
type debugServer struct {
	cfg  DebugConfig
	http *http.Server
	done chan struct{}
}

func newDebugServer(cfg DebugConfig, o *obs.Obs, grpcServer *server.Server) *debugServer {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-grpcServer.Done():
			http.Error(w, "not serving", http.StatusServiceUnavailable)
		default:
			fmt.Fprintln(w, "ok")
		}
	})
	if cfg.loopback() {
		// Profiles show memory, and with it what users wrote.
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return &debugServer{cfg: cfg, http: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}}
}

// Start opens the address, if one is set.
func (d *debugServer) Start(ctx context.Context) error {
	if d.cfg.Address == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", d.cfg.Address)
	if err != nil {
		return fmt.Errorf("run: debug-address %s: %w", d.cfg.Address, err)
	}
	done := make(chan struct{})
	d.done = done
	go func() {
		defer close(done)
		_ = d.http.Serve(l) // always http.ErrServerClosed: Stop ends it
	}()
	return nil
}

// Stop ends what Start began.
func (d *debugServer) Stop(ctx context.Context) error {
	if d.done == nil {
		return nil
	}
	err := d.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, d.http.Close())
	}
	<-d.done
	return err
}

// oneLine joins the lines of an error, so that the message for the person is one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
