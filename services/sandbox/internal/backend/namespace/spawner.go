package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// setupTimeout bounds the start of init.
const setupTimeout = 20 * time.Second

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
	h, err := findHierarchy("/proc/self", conf.CgroupParent)
	if err != nil {
		return nil, err
	}
	s := &spawner{
		conf: conf, group: group{h: h, id: spec.ID, owner: -1}, done: make(chan struct{}),
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

func unavailable(what string, err error) error {
	return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonDriverUnavailable,
		"the namespace driver cannot make a sandbox here (%s: %s); see Probe for what is missing", what, err.Error()).With("step", what)
}

// startInit clones init into its namespaces.
func (s *spawner) startInit() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	_ = ours.Close()
	if err != nil {
		return err
	}
	s.conn = conn.(*net.UnixConn)
	leaf, err := os.Open(filepath.Join(s.group.unified(), "init"))
	if err != nil {
		return err
	}
	defer leaf.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{InitArg0}
	cmd.Env = []string{"GOMAXPROCS=2", "GOMEMLIMIT=48MiB"}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		Setsid:     true, UseCgroupFD: true, CgroupFD: int(leaf.Fd()),
		Credential: &syscall.Credential{},
	}
	if s.conf.Slot >= 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: s.conf.base(), Size: idsPerSandbox}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	} else {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.Credential.NoSetGroups = true
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.init = cmd
	return s.group.join(cmd.Process.Pid)
}

// setUp lets init build the sandbox, and takes the workspace from it.
func (s *spawner) setUp(in setup) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_ = s.conn.SetDeadline(time.Now().Add(setupTimeout))
	defer s.conn.SetDeadline(time.Time{})
	if _, err := s.conn.Write(text); err != nil {
		return err
	}
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := s.conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return fmt.Errorf("init ended during its set-up: %w", err)
	}
	var r report
	if err := json.Unmarshal(buf[:n], &r); err != nil {
		return err
	}
	files := receivedFiles(oob[:oobn])
	if r.Event != evReady || len(files) != 1 {
		return errors.New(r.Error)
	}
	s.files = os.NewFile(uintptr(files[0]), "workspace")
	return nil
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
