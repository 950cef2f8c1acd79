package procs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gantry-agents/gantry/libs/client"
)

const (
	// readyTimeout is how long a process may take until it serves.
	readyTimeout = 30 * time.Second
	// stopTimeout is how long it may take to end after SIGTERM; services cut their calls after 10 seconds.
	stopTimeout = 20 * time.Second
	// logTail is how much of a log an error shows.
	logTail = 2000
)

// process is one running program.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     string
	address string
	conn    *grpc.ClientConn
	// ended is closed when the process has ended; state is set before.
	ended chan struct{}
	state *os.ProcessState
}

// start runs a program; its output is appended to the log. It does not wait until the program serves.
func start(l *launcher, name, bin string, args, env []string, address, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), env...)
	if err := l.start(cmd); err != nil {
		return nil, fmt.Errorf("procs: start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, address: address, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in the state
		p.state = cmd.ProcessState
	}()
	p.conn, err = client.Dial(address, nil)
	if err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// ready waits until the process serves.
func (p *process) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	got, err := healthpb.NewHealthClient(p.conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	select {
	case <-p.ended:
		return fmt.Errorf("procs: %s ended (%s) before it served\n%s", p.name, p.state, p.tail())
	default:
	}
	if err == nil && got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it is %s", got.GetStatus())
	}
	if err != nil {
		return fmt.Errorf("procs: %s does not serve on %s: %w\n%s", p.name, p.address, err, p.tail())
	}
	return nil
}

// stop asks the process to end and kills it when it does not within stopTimeout or ctx. A program that had to be killed, or
// that ended with a failure, is an error.
func (p *process) stop(ctx context.Context) error {
	defer p.conn.Close()
	if p.done() {
		return nil // it was killed, or its end was reported by whoever noticed
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("procs: stop %s: %w", p.name, err)
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		if !p.state.Success() {
			return fmt.Errorf("procs: %s ended with %s\n%s", p.name, p.state, p.tail())
		}
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return errors.Join(fmt.Errorf("procs: %s did not stop and was killed\n%s", p.name, p.tail()), p.kill())
}

// kill ends the process without asking, and waits until it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("procs: kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

func (p *process) done() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// tail is the end of the log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-logTail):]))
}
