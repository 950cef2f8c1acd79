// Package replica runs the workspace service as processes that may be killed and started again, for the commands that torture and measure it.
package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 20 * time.Second
	logTail      = 2000
)

// reconnect is quicker than that of services: the process that was killed is back within a second.
var reconnect = backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}

// Config says how a replica is started.
type Config struct {
	// Bin is the program.
	Bin string
	// Args are its flags, without the address.
	Args []string
	// Env are further variables, as in os.Environ.
	Env []string
	// Log is the file that its output is appended to.
	Log string
}

// Replica is a process of the service. Its address and its connection stay the same over restarts.
type Replica struct {
	cfg     Config
	address string
	conn    *grpc.ClientConn

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// New prepares a replica on a free port of the loopback. Nothing runs yet.
func New(cfg Config) (*Replica, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	conn, err := client.Dial(address, nil, grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}))
	if err != nil {
		return nil, err
	}
	return &Replica{cfg: cfg, address: address, conn: conn}, nil
}

// Conn is the connection to the replica. Close closes it.
func (r *Replica) Conn() *grpc.ClientConn { return r.conn }

// Address is where it serves.
func (r *Replica) Address() string { return r.address }

// Start runs the process and waits until it serves.
func (r *Replica) Start(ctx context.Context) error {
	if err := r.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	got, err := healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	for errors.Is(err, errdefs.ErrUnavailable) && ctx.Err() == nil { // on a connection to the process that was killed before
		got, err = healthpb.NewHealthClient(r.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	}
	if err == nil && got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it is %s", got.GetStatus())
	}
	if err != nil {
		return fmt.Errorf("%s does not serve on %s: %w\n%s", filepath.Base(r.cfg.Bin), r.address, err, r.LogTail())
	}
	return nil
}

func (r *Replica) launch() error {
	out, err := os.OpenFile(r.cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(r.cfg.Bin, append([]string{"--address=" + r.address}, r.cfg.Args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = out, out, append(os.Environ(), r.cfg.Env...), attributes()
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// The kernel kills the child when the thread that started it ends, so that nothing outlives this program: the thread waits with it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed or stopped: either is wanted
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", r.cfg.Bin, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd, r.ended = cmd, ended
	return nil
}

// Kill ends the process as a crash would, and waits until it is gone.
func (r *Replica) Kill() error {
	r.mu.Lock()
	cmd, ended := r.cmd, r.ended
	r.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill: %w", err)
	}
	<-ended
	return nil
}

// Stop ends the process in good order. One that does not end is killed, which is an error.
func (r *Replica) Stop() error {
	r.mu.Lock()
	cmd, ended := r.cmd, r.ended
	r.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-ended:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("the process did not stop and was killed\n%s", r.LogTail()), r.Kill())
	}
}

// Close kills what runs and closes the connection.
func (r *Replica) Close() error { return errors.Join(r.Kill(), r.conn.Close()) }

// LogTail is the end of the process's output.
func (r *Replica) LogTail() string {
	text, err := os.ReadFile(r.cfg.Log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-logTail):]))
}
