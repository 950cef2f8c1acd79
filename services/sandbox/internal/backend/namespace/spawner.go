package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// spawner is the supervisor's side of one sandbox.
type spawner struct {
	conf  launch
	group group
	conn  *net.UnixConn
	init  *exec.Cmd
	files *os.File // the workspace
	done  chan struct{}

	mu       sync.Mutex
	next     int
	pending  map[int]chan report // answers to orders
	children map[int]*child
	running  int
}

// NewSpawner makes the sandbox. It is the [supervisor.Factory] of this driver.
func NewSpawner(_ string, spec sandbox.Spec, config json.RawMessage) (_ supervisor.Spawner, err error) {
	var conf launch
	if err := json.Unmarshal(config, &conf); err != nil {
		return nil, err
	}
	s := &spawner{
		conf: conf, group: group{h: conf.Groups, id: spec.ID, owner: -1}, done: make(chan struct{}),
		pending: map[int]chan report{}, children: map[int]*child{},
	}
	if conf.Slot >= 0 {
		s.group.owner = conf.base()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.group.create(spec.Limits); err != nil {
		return nil, unavailable("control groups", err)
	}
	if err := s.startInit(); err != nil {
		return nil, unavailable("namespaces", err)
	}
	if err := s.setUp(setup{RootFS: conf.RootFS, Limits: spec.Limits, SingleUser: conf.Slot < 0}); err != nil {
		return nil, unavailable("set-up", err)
	}
	go s.receive()
	return s, nil
}

// receive distributes what init reports. When init is gone, so is everything inside.
func (s *spawner) receive() {
	buf := make([]byte, maxPacket)
	for {
		n, err := s.conn.Read(buf)
		if err != nil || n == 0 {
			break
		}
		var r report
		if json.Unmarshal(buf[:n], &r) != nil {
			continue
		}
		s.mu.Lock()
		if r.Event == evExit {
			if c := s.children[r.ID]; c != nil {
				delete(s.children, r.ID)
				c.end(supervisor.Status{Code: r.Code, Signal: r.Signal, MaxRSS: r.MaxRSS})
			}
		} else if ch := s.pending[r.ID]; ch != nil {
			delete(s.pending, r.ID)
			ch <- r
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.children {
		delete(s.children, id)
		c.end(supervisor.Status{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL), Lost: true})
	}
	close(s.done)
}

// order sends one message and waits for the answer.
func (s *spawner) order(o order, files ...int) (report, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return report{}, err
	}
	if len(text) > maxPacket {
		return report{}, sandbox.Errorf(errdefs.ErrInvalidArgument, sandbox.ReasonCommandInvalid, "arguments and environment are too long: send a script")
	}
	answer := make(chan report, 1)
	s.mu.Lock()
	s.pending[o.ID] = answer
	s.mu.Unlock()
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	if _, _, err := s.conn.WriteMsgUnix(text, oob, nil); err != nil {
		return report{}, fmt.Errorf("init does not listen: %w", err)
	}
	select {
	case r := <-answer:
		return r, nil
	case <-s.done:
		return report{}, errors.New("the sandbox died")
	}
}

// Spawn implements [supervisor.Spawner].
func (s *spawner) Spawn(req supervisor.SpawnRequest) (supervisor.Child, error) {
	leaf, err := s.group.leaf(req.ID)
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	c := &child{s: s, leaf: leaf, ended: make(chan struct{}), ooms: s.group.oomKills()}
	dir, err := unix.Open(leaf, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, os.Remove(leaf))
	}
	defer unix.Close(dir)
	s.mu.Lock()
	s.next++
	c.id = s.next
	s.children[c.id] = c
	s.running++
	c.alone = s.running == 1
	s.mu.Unlock()
	files := []int{int(req.Stdin.Fd()), int(req.Stdout.Fd()), int(req.Stderr.Fd()), dir}
	if req.Script != nil {
		files = append(files, int(req.Script.Fd()))
	}
	r, err := s.order(order{ID: c.id, Op: opSpawn, Argv: toBytes(req.Argv), Env: toBytes(req.Env), Dir: req.Dir, Script: req.Script != nil}, files...)
	if err == nil && r.Event == evFailed {
		class := errdefs.ErrInternal
		switch r.Reason {
		case sandbox.ReasonCommandNotFound, sandbox.ReasonCwdNotFound:
			class = errdefs.ErrNotFound
		case sandbox.ReasonProcessLimit:
			class = errdefs.ErrResourceExhausted
		}
		err = sandbox.Errorf(class, r.Reason, "%s", r.Error)
	}
	if err != nil {
		s.mu.Lock()
		delete(s.children, c.id)
		s.running--
		s.mu.Unlock()
		go removeLeaf(leaf)
		return nil, err
	}
	return c, nil
}

// Workspace implements [supervisor.Spawner].
func (s *spawner) Workspace() (*os.File, supervisor.FilesInfo, error) {
	fd, err := unix.Openat(int(s.files.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, supervisor.FilesInfo{}, err
	}
	info := supervisor.FilesInfo{UID: -1, GID: -1, OwnerUID: -1, OwnerGID: -1}
	if s.conf.Slot >= 0 {
		base := s.conf.base()
		info = supervisor.FilesInfo{UID: base + userID, GID: base + groupID, OwnerUID: base, OwnerGID: base}
	}
	return os.NewFile(uintptr(fd), "workspace"), info, nil
}

// WorkspaceDir implements [supervisor.Spawner].
func (s *spawner) WorkspaceDir() string { return workspaceDir }

// Home implements [supervisor.Spawner].
func (s *spawner) Home() string { return homeDir }

// Freeze implements [supervisor.Spawner].
func (s *spawner) Freeze() error { return s.group.freeze(true) }

// Thaw implements [supervisor.Spawner].
func (s *spawner) Thaw() error { return s.group.freeze(false) }

// Done implements [supervisor.Spawner].
func (s *spawner) Done() <-chan struct{} { return s.done }

// Close implements [supervisor.Spawner].
func (s *spawner) Close() error {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	err := s.group.destroy()
	if s.init != nil {
		_ = s.init.Process.Kill()
		_ = s.init.Wait()
		// The groups of init could not go while it was there.
		err = s.group.destroy()
	}
	if s.files != nil {
		_ = s.files.Close()
	}
	return err
}
