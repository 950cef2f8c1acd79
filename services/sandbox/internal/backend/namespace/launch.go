package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// setupTimeout bounds the start of init.
const setupTimeout = 20 * time.Second

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
