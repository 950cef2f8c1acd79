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
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalpostgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
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
		return serve(tb, sqlite(tb), nil)
	})
}

// TestThreadServiceOnPostgres runs the suite against the shared store.
func TestThreadServiceOnPostgres(t *testing.T) {
	threadtest.Run(testkit.Wrap(t), func(tb testing.TB) grpc.ClientConnInterface {
		store, err := journalpostgres.Open(tb.Context(), journalpostgres.Config{DSN: testkit.Postgres(tb)})
		if err != nil {
			tb.Fatal(err)
		}
		return serve(tb, store, nil)
	})
}

func sqlite(tb testing.TB) journal.Store {
	tb.Helper()
	store, err := journalsqlite.Open(tb.Context(), journalsqlite.Config{Path: filepath.Join(tb.TempDir(), "journal.db")})
	if err != nil {
		tb.Fatal(err)
	}
	return store
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

// serve starts a server on a store, which it closes, with a fault if there is one.
func serve(tb testing.TB, store journal.Store, fault fault) grpc.ClientConnInterface {
	tb.Helper()
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
	var service threadv1.ThreadServiceServer = thread.New(store)
	if fault != nil {
		service = broken{service, fault}
	}
	threadv1.RegisterThreadServiceServer(s.Registrar(), service)
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Stop(context.Background()) })
	return dial(tb, "memory:thread", network)
}

// fault is something wrong with commits: it may change the request and the context, and ask the server.
type fault func(ctx context.Context, s threadv1.ThreadServiceServer, r *threadv1.CommitRequest) context.Context

// broken is a right server with a fault in front of it.
type broken struct {
	threadv1.ThreadServiceServer
	fault fault
}

func (b broken) Commit(ctx context.Context, r *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	return b.ThreadServiceServer.Commit(b.fault(ctx, b.ThreadServiceServer, r), r)
}

func TestTheSuiteNotices(t *testing.T) {
	change := func(f func(*threadv1.CommitRequest)) fault {
		return func(ctx context.Context, _ threadv1.ThreadServiceServer, r *threadv1.CommitRequest) context.Context {
			f(r)
			return ctx
		}
	}
	for name, fault := range map[string]fault{
		"consumes nothing":     change(func(r *threadv1.CommitRequest) { r.ConsumedMessageIds = nil }),
		"loses events":         change(func(r *threadv1.CommitRequest) { r.Events = r.Events[:len(r.Events)/2] }),
		"ignores the sequence": change(func(r *threadv1.CommitRequest) { r.ExpectedSeq = -1 }),
		"never releases":       change(func(r *threadv1.CommitRequest) { r.Release = false }),
		"drops timers":         change(func(r *threadv1.CommitRequest) { r.Mail = nil }),
		"ignores the epoch": func(ctx context.Context, s threadv1.ThreadServiceServer, r *threadv1.CommitRequest) context.Context {
			if h, err := s.Head(ctx, &threadv1.HeadRequest{}); err == nil && h.GetHead().GetOwner().GetId() != "" {
				r.Epoch, r.OwnerId = h.GetHead().GetEpoch(), h.GetHead().GetOwner().GetId()
			}
			return ctx
		},
		"ignores the user": func(ctx context.Context, _ threadv1.ThreadServiceServer, _ *threadv1.CommitRequest) context.Context {
			id, _ := identity.FromContext(ctx)
			id.User = "everybody"
			return identity.NewContext(ctx, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := testkit.Failures(func(t testkit.T) {
				threadtest.Run(t, func(tb testing.TB) grpc.ClientConnInterface { return serve(tb, sqlite(tb), fault) })
			})
			if len(failures) == 0 {
				t.Error("the suite passes a service that is broken")
			}
		})
	}
}
