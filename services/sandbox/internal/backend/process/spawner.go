package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// spawner starts processes on the host.
type spawner struct {
	id        string
	workspace string
	home      string
	group     string // control group of the instance. Empty: there is none.
	done      chan struct{}
}

// NewSpawner is the [supervisor.Factory] of this driver.
func NewSpawner(dir string, spec sandbox.Spec, _ json.RawMessage) (supervisor.Spawner, error) {
	s := &spawner{id: spec.ID, workspace: spec.HostDir, done: make(chan struct{})}
	if s.workspace == "" {
		// Beside the instances, by bucket: nothing here is archived, so the files must survive the instance.
		s.workspace = filepath.Join(filepath.Dir(dir)+"-workspaces", filepath.FromSlash(spec.Bucket))
		if err := os.MkdirAll(s.workspace, 0o755); err != nil {
			return nil, err
		}
	}
	s.home = filepath.Join(dir, "home")
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return nil, err
	}
	if parent := cgroupParent(); parent != "" {
		s.group = filepath.Join(parent, spec.ID)
		if err := os.MkdirAll(s.group, 0o755); err != nil {
			return nil, err
		}
		return s, nil
	}
	// Orphans become children of this process instead of vanishing from sight.
	return s, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Spawn implements [supervisor.Spawner].
func (s *spawner) Spawn(req supervisor.SpawnRequest) (supervisor.Child, error) {
	if _, err := os.Stat(req.Dir); err != nil {
		return nil, sandbox.Errorf(errdefs.ErrNotFound, sandbox.ReasonCwdNotFound, "there is no directory %s", req.Dir)
	}
	c := &child{s: s, exec: req.ID}
	cmd := &exec.Cmd{
		Path: req.Argv[0], Args: req.Argv, Dir: req.Dir, Env: append(req.Env, marker(s.id, req.ID)),
		Stdin: req.Stdin, Stdout: req.Stdout, Stderr: req.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if req.Script != nil {
		cmd.ExtraFiles = []*os.File{req.Script}
		cmd.Args = append(append([]string(nil), req.Argv...), "/proc/self/fd/3")
	}
	if filepath.Base(cmd.Path) == cmd.Path {
		path, err := lookPath(cmd.Path, req.Env)
		if err != nil {
			return nil, sandbox.Errorf(errdefs.ErrNotFound, sandbox.ReasonCommandNotFound, "%s", err.Error())
		}
		cmd.Path = path
	}
	if s.group != "" {
		c.leaf = filepath.Join(s.group, req.ID)
		if err := os.Mkdir(c.leaf, 0o755); err != nil {
			return nil, err
		}
		dir, err := os.Open(c.leaf)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := cmd.Start(); err != nil {
		if c.leaf != "" {
			_ = os.Remove(c.leaf)
		}
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOEXEC) {
			return nil, sandbox.Errorf(errdefs.ErrNotFound, sandbox.ReasonCommandNotFound, "%s cannot be started: not found, or not a program", req.Argv[0])
		}
		return nil, fmt.Errorf("start: %w", err)
	}
	c.cmd = cmd
	return c, nil
}

// Workspace implements [supervisor.Spawner].
func (s *spawner) Workspace() (*os.File, supervisor.FilesInfo, error) {
	f, err := os.Open(s.workspace)
	return f, supervisor.FilesInfo{UID: -1, GID: -1, OwnerUID: -1, OwnerGID: -1, Sync: true}, err
}

// WorkspaceDir implements [supervisor.Spawner].
func (s *spawner) WorkspaceDir() string { return s.workspace }

// Home implements [supervisor.Spawner].
func (s *spawner) Home() string { return s.home }

// Freeze implements [supervisor.Spawner].
func (s *spawner) Freeze() error { return s.frozen("1") }

// Thaw implements [supervisor.Spawner].
func (s *spawner) Thaw() error { return s.frozen("0") }

func (s *spawner) frozen(value string) error {
	if s.group == "" {
		return sandbox.Errorf(errdefs.ErrUnimplemented, sandbox.ReasonNotImplemented, "pausing needs a control group; use the namespace driver")
	}
	return os.WriteFile(filepath.Join(s.group, "cgroup.freeze"), []byte(value), 0)
}

// Done implements [supervisor.Spawner]. There is nothing between the supervisor and the processes that could die.
func (s *spawner) Done() <-chan struct{} { return s.done }

// Close implements [supervisor.Spawner].
func (s *spawner) Close() error {
	if s.group != "" {
		return destroyGroup(s.group)
	}
	killMarked(s.id, "")
	return nil
}
