package orchestratortest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/offline"
	"github.com/gantry-agents/gantry/libs/model/scripted"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest/inmemory"
)

// Cluster is replicas of the orchestrator over services in memory, connected by the full chain of interceptors.
type Cluster struct {
	tb        testing.TB
	net       *inproc.Network
	Threads   *inmemory.Threads
	Workspace *inmemory.Workspace
	Tasks     *inmemory.Tasks
	Model     *scripted.Provider
	Minter    *access.Minter
	auth      access.Config
	replicas  int
}

// Replica is one orchestrator of a cluster.
type Replica struct {
	c       *Cluster
	Name    string
	Service *orchestrator.Service
	server  *server.Server
	// Conn leads to the replica, with the identity of the context.
	Conn   *grpc.ClientConn
	link   *link
	killed bool
}

// NewCluster makes a cluster without replicas. Clients prove who they are as auth says; the zero value trusts everybody.
func NewCluster(tb testing.TB, script string, auth access.Config) *Cluster {
	tb.Helper()
	threads := inmemory.NewThreads()
	minter, err := access.NewMinter(nil, nil)
	must(tb, err)
	c := &Cluster{tb: tb, net: inproc.New(), Threads: threads, Workspace: inmemory.NewWorkspace(), Tasks: inmemory.NewTasks(threads), Model: scripted.Must(script), Minter: minter, auth: auth}
	// What the orchestrator calls takes its capabilities, whatever clients have to show.
	c.serve("workspace", auth, func(r grpc.ServiceRegistrar) {
		threadv1.RegisterThreadServiceServer(r, threads)
		workspacev1.RegisterWorkspaceServiceServer(r, c.Workspace)
		fsv1.RegisterFilesystemServiceServer(r, c.Workspace.Files())
		taskv1.RegisterTaskServiceServer(r, c.Tasks)
	})
	return c
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// serve starts a server in memory.
func (c *Cluster) serve(name string, auth access.Config, register func(grpc.ServiceRegistrar)) *server.Server {
	c.tb.Helper()
	authenticator, err := access.New(auth, access.Options{KeySet: c.Minter.KeySet()})
	must(c.tb, err)
	chain, err := middleware.Default(middleware.Options{Access: authenticator})
	must(c.tb, err)
	s, err := server.New(server.Config{Address: "memory:" + name, ShutdownTimeout: time.Second}, chain, c.net)
	must(c.tb, err)
	register(s.Registrar())
	must(c.tb, s.Start(context.Background()))
	c.tb.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// Dial connects to a server of the cluster.
func (c *Cluster) Dial(name string) *grpc.ClientConn {
	c.tb.Helper()
	conn, err := client.Dial("memory:"+name, c.net)
	must(c.tb, err)
	c.tb.Cleanup(func() { conn.Close() })
	return conn
}

// Start adds a replica. change may change its settings; nil: none.
func (c *Cluster) Start(change func(*orchestrator.Config)) *Replica {
	c.tb.Helper()
	c.replicas++
	r := &Replica{c: c, Name: fmt.Sprintf("replica%d", c.replicas), link: &link{inner: c.Dial("workspace")}}
	registry, err := model.NewRegistry("scripted", c.Model, offline.New())
	must(c.tb, err)
	cfg := orchestrator.DefaultConfig()
	cfg.Replica, cfg.Model, cfg.ModelAttempts = r.Name, "scripted:script", 2
	if change != nil {
		change(&cfg)
	}
	deps := orchestrator.Deps{Workspace: r.link, Tasks: r.link, Models: registry, Minter: c.Minter, Logger: c.logger(r.Name)}
	r.Service, err = orchestrator.New(context.Background(), cfg, deps)
	must(c.tb, err)
	must(c.tb, r.Service.Start(context.Background()))
	c.tb.Cleanup(r.Stop)
	r.server = c.serve(r.Name, c.auth, r.Service.Register)
	r.Conn = c.Dial(r.Name)
	return r
}

// logger shows the log when GANTRY_TEST_LOG is set.
func (c *Cluster) logger(name string) *slog.Logger {
	if os.Getenv("GANTRY_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("replica", name)
}

// Kill cuts the replica off from everything at once, as a process that dies: nothing that it does from now on reaches anybody.
func (r *Replica) Kill() {
	r.link.cut.Store(true)
	r.killed = true
}

// KillAt kills the replica at the nth commit from now on: before the store has it, or after, when only the answer is lost. The owner's life ends with it, so that
// nobody has to wait for it to expire.
func (r *Replica) KillAt(n int, before bool) {
	r.killed = true
	r.link.at.Store(&deadline{left: n, before: before, die: func(owner string) { r.c.Threads.Kill(owner) }})
}

// DelayClaims makes the answers of the store that give threads to this replica take so long on their way.
func (r *Replica) DelayClaims(d time.Duration) { r.link.late.Store(int64(d)) }

// Dead says whether the replica is cut off.
func (r *Replica) Dead() bool { return r.link.cut.Load() }

// Revive gives a killed replica its connections back, as a process that was frozen and goes on.
func (r *Replica) Revive() { r.link.cut.Store(false); r.killed = false }

// Stop ends the replica in good order.
func (r *Replica) Stop() {
	if r.Service == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r.killed {
		var none context.CancelFunc
		ctx, none = context.WithTimeout(ctx, time.Millisecond)
		defer none()
	}
	_ = r.server.Stop(ctx)
	_ = r.Service.Stop(ctx)
	r.Service = nil
}

// link is a connection that can be cut.
type link struct {
	inner grpc.ClientConnInterface
	cut   atomic.Bool
	at    atomic.Pointer[deadline]
	// late is how long answers that give threads away are under way.
	late atomic.Int64
}

// deadline is the commit at which a link is cut.
type deadline struct {
	mu     sync.Mutex
	left   int
	before bool
	die    func(owner string)
}

// reached counts a call and says whether the link is cut at it.
func (d *deadline) reached(args any) bool {
	if _, commit := args.(*threadv1.CommitRequest); d == nil || !commit {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	return d.left == 0
}

var errCut = errdefs.New(errdefs.ErrUnavailable, errdefs.DomainCommon, "", "the connection is cut")

func (l *link) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if l.cut.Load() {
		return errCut
	}
	d := l.at.Load()
	last := d.reached(args)
	if last {
		l.cut.Store(true)
	}
	if !last || !d.before {
		err := l.inner.Invoke(ctx, method, args, reply, opts...)
		if r, ok := reply.(*threadv1.ClaimExpiredResponse); ok && len(r.GetClaims()) > 0 {
			time.Sleep(time.Duration(l.late.Load()))
		}
		if !last && !l.cut.Load() {
			return err
		}
	}
	if last {
		d.die(args.(*threadv1.CommitRequest).GetOwnerId())
	}
	return errCut // the answer is lost, whatever happened at the other side
}

func (l *link) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if l.cut.Load() {
		return nil, errCut
	}
	return l.inner.NewStream(ctx, desc, method, opts...)
}
