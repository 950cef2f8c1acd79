package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// startTimeout bounds the start of a supervisor with its sandbox.
const startTimeout = 30 * time.Second

// Launch makes the directory of an instance below parent and starts its supervisor: this very binary under the name [Arg0]. config is handed to the
// driver's [Factory]. After an error nothing is left: reap cleans up what the supervisor may have made.
func Launch(ctx context.Context, parent string, spec sandbox.Spec, config any, reap func(dir string, spec sandbox.Spec) error) (c *Client, err error) {
	dir := filepath.Join(parent, spec.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of the sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, reap(dir, spec), os.RemoveAll(dir))
		}
	}()
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(stored{Spec: spec, Config: raw})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, specFile), text, 0o600); err != nil {
		return nil, err
	}
	if err := start(ctx, dir); err != nil {
		return nil, err
	}
	return Open(dir, spec, reap), nil
}

// start runs the supervisor and waits until it says that it is ready. It gets no environment: secrets of the service stay with the service.
func start(ctx context.Context, dir string) error {
	logs, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{Arg0, dir}
	// A build with the race detector would sleep for a second when it ends; other builds do not read the last variable.
	cmd.Env = []string{"PATH=/usr/bin:/bin", "GOMAXPROCS=2", "GOMEMLIMIT=64MiB", "GORACE=atexit_sleep_ms=0"}
	cmd.Stderr = logs
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	// Somebody has to collect the exit status while this process lives; nobody waits for it.
	go func() { _ = cmd.Wait() }()
	deadline := time.Now().Add(startTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = r.SetReadDeadline(deadline)
	defer context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })()
	var resp response
	if _, err := readFrame(r, &resp); err != nil {
		_ = cmd.Process.Kill()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return sandbox.Errorf(errdefs.ErrUnavailable, sandbox.ReasonSandboxLost, "the sandbox did not start: %w", errors.Join(err, tail(dir)))
	}
	return resp.Error.err()
}

// tail is the end of the supervisor's log, for the service's log.
func tail(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil || len(text) == 0 {
		return err
	}
	return fmt.Errorf("supervisor: %s", text[max(0, len(text)-2000):])
}
