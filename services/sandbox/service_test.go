package sandbox_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/sandboxtest"
)

// serveArg0 is the name under which this test binary is the service.
const serveArg0 = "gantry-sandbox-under-test"

func TestMain(m *testing.M) {
	sandbox.MaybeInit()
	if os.Args[0] == serveArg0 {
		os.Exit(run.Main(run.Spec[sandbox.Config]{
			Name: "sandbox", Address: "127.0.0.1:7404",
			New: func(ctx context.Context, cfg sandbox.Config, env run.Env) (run.Service, error) {
				return sandbox.New(ctx, cfg, sandbox.Deps{Logger: env.Logger})
			},
		}))
	}
	testkit.LeakMain(m)
}

// needNamespace skips where the namespace driver does not work.
func needNamespace(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		testkit.Skip(tb, "namespace", "the service is tested as root")
	}
}

func settings(tb testing.TB) sandbox.Config {
	cfg := sandbox.DefaultConfig()
	cfg.Dir, cfg.Tick = tb.TempDir(), 20*time.Millisecond
	return cfg
}

// inMemory serves the service in this process, with the chain that it has in production.
func inMemory(tb testing.TB, cfg sandbox.Config, deps sandbox.Deps) grpc.ClientConnInterface {
	tb.Helper()
	s, err := sandbox.New(tb.Context(), cfg, deps)
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
	srv, err := server.New(server.Config{Address: "memory:sandbox"}, chain, network)
	if err != nil {
		tb.Fatal(err)
	}
	s.Register(srv.Registrar())
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if err := srv.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	conn, err := client.Dial("memory:sandbox", network)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		if err := srv.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return conn
}

func TestInMemory(t *testing.T) {
	needNamespace(t)
	conn := inMemory(t, settings(t), sandbox.Deps{})
	sandboxtest.Run(t, func(testing.TB) sandboxtest.Target { return sandboxtest.Target{Conn: conn} })
}

// TestAddress runs the suite against somebody else's implementation.
func TestAddress(t *testing.T) {
	target := os.Getenv("GANTRY_TARGET")
	if target == "" {
		t.Skip("GANTRY_TARGET names no address")
	}
	conn, err := client.Dial(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sandboxtest.Run(t, func(testing.TB) sandboxtest.Target { return sandboxtest.Target{Conn: conn} })
}

// process is the service in a process of its own.
type process struct {
	cfg     sandbox.Config
	address string
	cmd     *exec.Cmd
	conn    *grpc.ClientConn
}

func (p *process) start(tb testing.TB) {
	tb.Helper()
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Args = []string{serveArg0, "--address", p.address, "--dir", p.cfg.Dir, "--tick", p.cfg.Tick.String(), "--log-level", "warn"}
	p.cmd.Env = []string{"PATH=/usr/bin:/bin", "CANARY_KEY=zq1"}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	conn, err := client.Dial(p.address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	p.conn = conn
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for conn.Connect(); conn.GetState() != connectivity.Ready; conn.Connect() {
		if !conn.WaitForStateChange(ctx, conn.GetState()) {
			tb.Fatal("the service does not answer")
		}
	}
}

func (p *process) kill() {
	_ = p.conn.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func freeAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestProcess(t *testing.T) {
	needNamespace(t)
	p := &process{cfg: settings(t), address: freeAddress(t)}
	p.start(t)
	t.Cleanup(func() { p.kill() })
	t.Run("secrets of the service stay with the service", func(t *testing.T) {
		c := pb.NewSandboxServiceClient(p.conn)
		defer c.Destroy(as("canary"), &pb.DestroyRequest{SandboxId: "-", Force: true})
		got := output(t, c, as("canary"), "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls -la / /run /tmp; cat /proc/mounts")
		for _, secret := range []string{"zq" + "1", p.cfg.Dir, "CANARY"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q is visible inside:\n%s", secret, got)
			}
		}
	})
	sandboxtest.Run(t, func(testing.TB) sandboxtest.Target {
		return sandboxtest.Target{Conn: p.conn, Restart: func(tb testing.TB) grpc.ClientConnInterface {
			p.kill()
			p.start(tb)
			return p.conn
		}}
	})
	left, _ := filepath.Glob(filepath.Join(p.cfg.Dir, "live", "*", "*"))
	if len(left) > 0 {
		t.Errorf("the suite left %d sandboxes: %s", len(left), fmt.Sprint(left))
	}
}
