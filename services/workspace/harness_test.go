package workspace_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

func TestMain(m *testing.M) {
	// The client of S3 keeps connections for the next request; nothing closes them before their time.
	testkit.LeakMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// target is the address of a running implementation to test instead of one in memory.
var target = flag.String("target", os.Getenv("GANTRY_TARGET"), "address of the service under test; empty: in memory")

// settings are those of a service with everything below a directory of its own.
func settings(tb testing.TB, backend string) workspace.Config {
	cfg := workspace.DefaultConfig()
	cfg.Backend = backend
	cfg.Workspace = filepath.Join(tb.TempDir(), "workspace")
	cfg.Data = filepath.Join(cfg.Workspace, ".gantry-runtime")
	switch backend {
	case workspace.BackendPostgres:
		cfg.Postgres = config.Secret(testkit.Postgres(tb))
	case workspace.BackendRedis:
		cfg.Redis = config.Secret(testkit.Redis(tb))
	case workspace.BackendObject:
		cfg.Object = "mem://"
	}
	return cfg
}

// serve runs a service in memory behind the whole chain, and connects to it. It ends with the test.
func serve(tb testing.TB, cfg workspace.Config, opts access.Options) *grpc.ClientConn {
	tb.Helper()
	conn, stop := launch(tb, cfg, opts)
	tb.Cleanup(stop)
	return conn
}

// launch is serve for a service that ends when stop is called.
func launch(tb testing.TB, cfg workspace.Config, opts access.Options) (conn *grpc.ClientConn, stop func()) {
	tb.Helper()
	service, err := workspace.New(tb.Context(), cfg, workspace.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	auth, err := access.New(access.Config{Mode: access.ModeNone}, opts)
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		tb.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:workspace"}, chain, network)
	if err != nil {
		tb.Fatal(err)
	}
	service.Register(s.Registrar())
	if err := errors.Join(service.Start(tb.Context()), s.Start(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	if conn, err = client.Dial("memory:workspace", network); err != nil {
		tb.Fatal(err)
	}
	return conn, func() {
		if err := errors.Join(conn.Close(), s.Stop(context.Background()), service.Stop(context.Background())); err != nil {
			tb.Errorf("stop the service: %v", err)
		}
	}
}

func dial(tb testing.TB, address string) *grpc.ClientConn {
	tb.Helper()
	conn, err := client.Dial(address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Errorf("close the connection: %v", err)
		}
	})
	return conn
}

// connect returns a connection to a fresh service, or to the target that was named.
func connect(tb testing.TB, backend string) *grpc.ClientConn {
	tb.Helper()
	if *target != "" {
		return dial(tb, *target)
	}
	return serve(tb, settings(tb, backend), access.Options{})
}
