package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/scripted"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator"
)

// readyTimeout is how long the workspace service may take until it serves.
const readyTimeout = 30 * time.Second

// serve runs a workspace service with its journal on PostgreSQL as a process, and an orchestrator here that works with it. The meter has the commits.
func serve(b *measure.B, dsn, script string) (*meter, orchestratorv1.RunServiceClient) {
	m := &meter{ClientConnInterface: workspace(b, dsn)}
	registry, err := model.NewRegistry("scripted", scripted.Must(script))
	b.Must(err)
	cfg := orchestrator.DefaultConfig()
	cfg.Replica, cfg.Model = "bench", "scripted:script"
	s, err := orchestrator.New(b.Ctx, cfg, orchestrator.Deps{Workspace: m, Models: registry})
	b.Must(err)
	b.Must(s.Start(b.Ctx))
	b.Cleanup(func() { b.Must(s.Stop(context.Background())) })
	auth, err := access.New(access.Config{Mode: access.ModeNone}, access.Options{})
	b.Must(err)
	chain, err := middleware.Default(middleware.Options{Access: auth})
	b.Must(err)
	network := inproc.New()
	served, err := server.New(server.Config{Address: "memory:orchestrator"}, chain, network)
	b.Must(err)
	s.Register(served.Registrar())
	b.Must(served.Start(b.Ctx))
	b.Cleanup(func() { b.Must(served.Stop(context.Background())) })
	conn, err := client.Dial("memory:orchestrator", network)
	b.Must(err)
	b.Cleanup(func() { _ = conn.Close() })
	return m, orchestratorv1.NewRunServiceClient(conn)
}

// workspace starts the process and connects to it.
func workspace(b *measure.B, dsn string) *grpc.ClientConn {
	path, err := filepath.Abs(*bin)
	b.Must(err)
	dir, address := b.TempDir(), fmt.Sprint("127.0.0.1:", testkit.FreePort(b))
	b.Must(os.Mkdir(filepath.Join(dir, "workspace"), 0o755))
	cmd := exec.Command(path, "--address="+address, "--workspace="+filepath.Join(dir, "workspace"), "--data="+filepath.Join(dir, "data"), "--journal-backend=postgres", "--postgres-dsn="+dsn)
	log, err := os.Create(filepath.Join(dir, "log"))
	b.Must(err)
	cmd.Stdout, cmd.Stderr = log, log
	b.Must(cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // how it ends is of no interest
		_ = log.Close()
	})
	conn, err := client.Dial(address, nil)
	b.Must(err)
	b.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(b.Ctx, readyTimeout)
	defer cancel()
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		text, _ := os.ReadFile(log.Name())
		b.Fatalf("the workspace service does not serve: %v\n%s", err, text)
	}
	return conn
}

// meter is a connection that measures commits.
type meter struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	times []time.Duration
}

// Invoke implements [grpc.ClientConnInterface].
func (m *meter) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if _, commit := args.(*threadv1.CommitRequest); !commit {
		return m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	started := time.Now()
	err := m.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, time.Since(started))
	return err
}

// take returns what was measured since the last call.
func (m *meter) take() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.times
	m.times = nil
	return out
}
