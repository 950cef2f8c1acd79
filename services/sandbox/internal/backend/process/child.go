package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// child is one exec on the host.
type child struct {
	s    *spawner
	exec string
	cmd  *exec.Cmd
	leaf string // control group. Empty: there is none.
}

// Wait implements [supervisor.Child].
func (c *child) Wait() supervisor.Status {
	_ = c.cmd.Wait() // the state says it all
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return supervisor.Status{Code: 255, Lost: true}
	}
	out := supervisor.Status{Code: status.ExitStatus()}
	if status.Signaled() {
		out.Signal = int(status.Signal())
		out.Code = 128 + out.Signal
	}
	if used, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		out.MaxRSS = used.Maxrss << 10
	}
	return out
}

// Signal implements [supervisor.Child].
func (c *child) Signal(signal int) error {
	err := unix.Kill(-c.cmd.Process.Pid, unix.Signal(signal))
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// Kill implements [supervisor.Child].
func (c *child) Kill() {
	if c.leaf != "" {
		_ = os.WriteFile(filepath.Join(c.leaf, "cgroup.kill"), []byte("1"), 0)
		return
	}
	_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	killMarked(c.s.id, c.exec)
}

// Finish implements [supervisor.Child].
func (c *child) Finish() supervisor.Usage {
	u := supervisor.Usage{CPU: c.cmd.ProcessState.SystemTime() + c.cmd.ProcessState.UserTime()}
	if c.leaf == "" {
		u.LeftBehind = killMarked(c.s.id, c.exec)
		return u
	}
	text, _ := os.ReadFile(filepath.Join(c.leaf, "cgroup.procs"))
	if u.LeftBehind = strings.TrimSpace(string(text)) != ""; u.LeftBehind {
		c.Kill()
	}
	if os.Remove(c.leaf) != nil {
		go func() { _ = removeGroup(c.leaf, 10*time.Second) }()
	}
	return u
}
