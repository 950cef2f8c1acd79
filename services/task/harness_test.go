package task_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task"
)

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		os.Exit(serveProcess())
	}
	testkit.LeakMain(m)
}

// rig is the service behind the whole chain of a server.
type rig struct {
	cfg     task.Config
	deps    task.Deps
	auth    access.Config
	opts    access.Options
	address string
	network *inproc.Network
	// began gets the name of each method when a call of it has reached the server, if it is not nil.
	began chan string
}

// newRig returns a rig with a database of its own, in memory and mode none.
func newRig(tb testing.TB) *rig {
	cfg := task.DefaultConfig()
	cfg.Database = filepath.Join(tb.TempDir(), "tasks.db")
	cfg.PostFirst, cfg.PostMax = 20*time.Millisecond, 100*time.Millisecond
	return &rig{cfg: cfg, address: "memory:task", network: inproc.New()}
}

// start starts service and server and returns what stops them, which the test's end does too.
func (r *rig) start(tb testing.TB) (stop func()) {
	tb.Helper()
	service, err := task.New(context.Background(), r.cfg, r.deps)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	auth, err := access.New(r.auth, r.opts)
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		tb.Fatal(err)
	}
	if r.began != nil {
		chain.Interceptors = append(chain.Interceptors, middleware.Interceptor{
			Name: "began", Around: func(ctx context.Context, call *middleware.Call, next func(context.Context) error) error {
				r.began <- call.Method
				return next(ctx)
			},
		})
	}
	s, err := server.New(server.Config{Address: r.address, ShutdownTimeout: 5 * time.Second}, chain, r.network)
	if err != nil {
		tb.Fatal(err)
	}
	service.Register(s.Registrar())
	if err := errors.Join(service.Start(tb.Context()), s.Start(tb.Context())); err != nil {
		tb.Fatalf("start: %v", err)
	}
	r.address = s.Addr()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		service.Drain()
		if err := errors.Join(s.Stop(ctx), service.Stop(ctx)); err != nil {
			tb.Errorf("stop: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// dial connects to the rig.
func (r *rig) dial(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	conn, err := client.Dial(r.address, r.network)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// client is a client of the rig.
func (r *rig) client(tb testing.TB) taskv1.TaskServiceClient {
	return taskv1.NewTaskServiceClient(r.dial(tb))
}

// mailbox is a thread service of which only Post works.
type mailbox struct {
	threadv1.UnimplementedThreadServiceServer

	mu     sync.Mutex
	refuse int // posts that are refused from now on
	posts  []*threadv1.PostRequest
	as     []identity.Identity
	ids    map[string]string
	came   chan struct{}
}

func newMailbox() *mailbox {
	return &mailbox{ids: make(map[string]string), came: make(chan struct{}, 1000)}
}

// Post takes a message, or refuses it.
func (m *mailbox) Post(ctx context.Context, r *threadv1.PostRequest) (*threadv1.PostResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.came <- struct{}{} }()
	if m.refuse != 0 {
		m.refuse--
		return nil, errdefs.New(errdefs.ErrUnavailable, "gantry.thread.v1", "", "not now")
	}
	id, _ := identity.FromContext(ctx)
	m.posts, m.as = append(m.posts, r), append(m.as, id)
	_, known := m.ids[r.GetMail().GetMessageId()]
	m.ids[r.GetMail().GetMessageId()] = string(r.GetMail().GetPayload())
	return &threadv1.PostResponse{Duplicate: known}, nil
}

func (m *mailbox) setRefuse(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = n
}

// accepted returns the messages that were taken.
func (m *mailbox) accepted() []*threadv1.PostRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*threadv1.PostRequest(nil), m.posts...)
}

// wait waits until so many calls have come.
func (m *mailbox) wait(tb testing.TB, n int) {
	tb.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	for range n {
		select {
		case <-m.came:
		case <-timer.C:
			tb.Fatal("nothing was posted")
		}
	}
}

// serveMailbox serves a mailbox in memory, behind the chain of a server.
func serveMailbox(tb testing.TB, m *mailbox, network *inproc.Network) *grpc.ClientConn {
	tb.Helper()
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := server.New(server.Config{Address: "memory:threads"}, chain, network)
	if err != nil {
		tb.Fatal(err)
	}
	threadv1.RegisterThreadServiceServer(s.Registrar(), m)
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	conn, err := client.Dial("memory:threads", network)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(); s.Stop(context.Background()) })
	return conn
}

// as is the context of a user of agent "coder".
func as(tb testing.TB, user, session string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	tb.Cleanup(cancel)
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: session})
}
