package workspace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

// begin runs a service in memory until stop is called, so that another one may begin on the same data.
func begin(tb testing.TB, cfg workspace.Config) (conn *grpc.ClientConn, stop func()) {
	tb.Helper()
	service, err := workspace.New(tb.Context(), cfg, workspace.Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	auth, err := access.New(access.Config{Mode: access.ModeNone}, access.Options{})
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

// Every change happens once under its effect id, also when the service has been restarted meanwhile.
func TestEffects(t *testing.T) {
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite, workspace.BackendPostgres} {
		t.Run(backend, func(t *testing.T) {
			workspacetest.RunEffects(testkit.Wrap(t), func(t testkit.T) (grpc.ClientConnInterface, func() grpc.ClientConnInterface) {
				cfg := settings(t, backend)
				conn, stop := begin(t, cfg)
				t.Cleanup(func() { stop() })
				return conn, func() grpc.ClientConnInterface {
					stop()
					conn, stop = begin(t, cfg)
					return conn
				}
			})
		})
	}
}

// forgetful is a connection on which one RPC loses its effect id.
type forgetful struct {
	grpc.ClientConnInterface
	method string
}

func (f forgetful) without(ctx context.Context, method string) context.Context {
	if !strings.HasSuffix(method, "/"+f.method) {
		return ctx
	}
	return change(func(id *identity.Identity) { id.Effect = "" })(ctx)
}

func (f forgetful) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return f.ClientConnInterface.Invoke(f.without(ctx, method), method, args, reply, opts...)
}

func (f forgetful) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return f.ClientConnInterface.NewStream(f.without(ctx, method), desc, method, opts...)
}

// The suite notices each RPC that does not honour its effect id.
func TestEffectsSuiteNotices(t *testing.T) {
	conn := connect(t, workspace.BackendSQLite)
	for _, method := range []string{
		"Write", "Edit", "Append", "Delete", "Move", "Upload", "RestoreRevision", "ApplyChanges", "PutAgentTemplate", "DeleteAgentTemplate", "ForgetBucket",
	} {
		failures := testkit.Failures(func(t testkit.T) {
			workspacetest.RunEffects(t, func(testkit.T) (grpc.ClientConnInterface, func() grpc.ClientConnInterface) {
				return forgetful{conn, method}, nil
			})
		})
		if !slices.ContainsFunc(failures, func(line string) bool { return strings.Contains(line, method) }) {
			t.Errorf("the suite does not notice that %s ignores effects: %q", method, failures)
		}
	}
}
