package threadtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/thread"
	"github.com/gantry-agents/gantry/services/workspace/threadtest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// TestThreadService runs the suite against the address in GANTRY_TARGET, or else against the SQLite store in memory's reach, with the chain of every server.
func TestThreadService(t *testing.T) {
	threadtest.Run(testkit.Wrap(t), func(tb testing.TB) grpc.ClientConnInterface {
		if target := os.Getenv("GANTRY_TARGET"); target != "" {
			return dial(tb, target, nil)
		}
		return serve(tb, nil)
	})
}

func dial(tb testing.TB, target string, network *inproc.Network) grpc.ClientConnInterface {
	tb.Helper()
	conn, err := client.Dial(target, network)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// serve starts a server on a fresh store; wrap, if not nil, comes before its handlers.
func serve(tb testing.TB, wrap grpc.UnaryServerInterceptor) grpc.ClientConnInterface {
	tb.Helper()
	store, err := journalsqlite.Open(tb.Context(), journalsqlite.Config{Path: filepath.Join(tb.TempDir(), "journal.db")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		tb.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:thread"}, chain, network)
	if err != nil {
		tb.Fatal(err)
	}
	threadv1.RegisterThreadServiceServer(s.Registrar(), wrapped{thread.New(store), wrap})
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Stop(context.Background()) })
	return dial(tb, "memory:thread", network)
}

// wrapped lets a test come between the chain and the server.
type wrapped struct {
	threadv1.ThreadServiceServer
	wrap grpc.UnaryServerInterceptor
}

func (w wrapped) Commit(ctx context.Context, r *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	if w.wrap == nil {
		return w.ThreadServiceServer.Commit(ctx, r)
	}
	out, err := w.wrap(ctx, r, nil, func(ctx context.Context, r any) (any, error) {
		return w.ThreadServiceServer.Commit(ctx, r.(*threadv1.CommitRequest))
	})
	if err != nil {
		return nil, err
	}
	return out.(*threadv1.CommitResponse), nil
}

func TestTheSuiteNotices(t *testing.T) {
	for name, fault := range map[string]func(*threadv1.CommitRequest){
		"consumes nothing":     func(r *threadv1.CommitRequest) { r.ConsumedMessageIds = nil },
		"loses events":         func(r *threadv1.CommitRequest) { r.Events = r.Events[:len(r.Events)/2] },
		"ignores the sequence": func(r *threadv1.CommitRequest) { r.ExpectedSeq = -1 },
		"never releases":       func(r *threadv1.CommitRequest) { r.Release = false },
		"drops timers":         func(r *threadv1.CommitRequest) { r.Mail = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := testkit.Failures(func(t testkit.T) {
				threadtest.Run(t, func(tb testing.TB) grpc.ClientConnInterface {
					return serve(tb, func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
						fault(r.(*threadv1.CommitRequest))
						return next(ctx, r)
					})
				})
			})
			if len(failures) == 0 {
				t.Error("the suite passes a service that is broken")
			}
		})
	}
}
