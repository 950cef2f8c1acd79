package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// controlFD is the socket to the supervisor.
const controlFD = 3

// initProcess is the first process of a sandbox.
type initProcess struct {
	conn       *net.UnixConn
	singleUser bool
	oomScore   int // handle of /proc/self/oom_score_adj

	// mu makes "fork and remember" one step for the reaper: a child that ends at once must be known.
	mu       sync.Mutex
	children map[int]int // pid to order id
	pids     map[int]int // order id to pid
}

// InitMain is the init process. The supervisor has put it into new namespaces; it builds the rest and then serves orders until the socket closes. The
// return value is the exit code.
func InitMain(args []string) int {
	file := os.NewFile(controlFD, "control")
	c, err := net.FileConn(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		return 111
	}
	p := &initProcess{conn: c.(*net.UnixConn), children: map[int]int{}, pids: map[int]int{}}
	if len(args) > 1 && args[1] == stageTwo {
		p.singleUser = os.Getenv("SINGLE_USER") != ""
	} else if err := p.buildSandbox(); err != nil {
		p.send(report{Event: evFailed, Error: err.Error()})
		return 112
	}
	_ = file.Close()
	if err := p.lock(); err != nil {
		p.send(report{Event: evFailed, Error: "lock down: " + err.Error()})
		return 113
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, unix.SIGCHLD)
	go p.reap(signals)
	if err := p.ready(); err != nil {
		p.send(report{Event: evFailed, Error: err.Error()})
		return 114
	}
	p.serve()
	return 0
}

// buildSandbox waits for the first message, which says that init is in its control groups, and makes everything that needs capabilities.
func (p *initProcess) buildSandbox() error {
	// Files that the service itself had inherited and did not mark would be visible inside.
	if err := unix.CloseRange(controlFD+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	unix.CloseOnExec(controlFD)
	buf := make([]byte, maxPacket)
	n, err := p.conn.Read(buf)
	if err != nil {
		return err
	}
	var in setup
	if err := json.Unmarshal(buf[:n], &in); err != nil {
		return err
	}
	p.singleUser = in.SingleUser
	if err := buildRoot(in); err != nil {
		return err
	}
	if err := limitResources(in); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	os.Clearenv()
	if p.singleUser {
		_ = os.Setenv("SINGLE_USER", "1")
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// lock takes away what is left to take away.
func (p *initProcess) lock() error {
	unix.CloseOnExec(controlFD)
	// Caught, not ignored: commands would inherit that a signal is ignored, and could not trap it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	if err := checkCapabilities(); err != nil {
		return err
	}
	var err error
	if p.oomScore, err = unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return installFilter()
}

// ready hands the workspace over.
func (p *initProcess) ready() error {
	fd, err := unix.Open(workspaceDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	text, err := json.Marshal(report{Event: evReady})
	if err != nil {
		return err
	}
	_, _, err = p.conn.WriteMsgUnix(text, unix.UnixRights(fd), nil)
	return err
}

func (p *initProcess) send(r report) {
	text, err := json.Marshal(r)
	if err == nil {
		_, _ = p.conn.Write(text)
	}
}

// serve carries out orders until the supervisor is gone. Returning ends the sandbox.
func (p *initProcess) serve() {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(8*4))
	for {
		n, oobn, _, _, err := p.conn.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		files := receivedFiles(oob[:oobn])
		var o order
		if err := json.Unmarshal(buf[:n], &o); err == nil {
			p.carryOut(o, files)
		}
		for _, fd := range files {
			_ = unix.Close(fd)
		}
	}
}

func receivedFiles(oob []byte) (files []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		files = append(files, fds...)
	}
	for _, fd := range files {
		unix.CloseOnExec(fd)
	}
	return files
}

func (p *initProcess) carryOut(o order, files []int) {
	switch o.Op {
	case opSpawn:
		if reason, err := p.spawn(o, files); err != nil {
			p.send(report{ID: o.ID, Event: evFailed, Reason: reason, Error: err.Error()})
		}
	case opSignal:
		p.mu.Lock()
		pid := p.pids[o.ID]
		var err error
		if pid > 0 {
			err = unix.Kill(-pid, unix.Signal(o.Signal))
		}
		p.mu.Unlock()
		r := report{ID: o.ID, Event: evDone}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			r.Error = err.Error()
		}
		p.send(r)
	}
}

// spawn forks a command. "started" is sent under the lock, so it always comes before "exit".
func (p *initProcess) spawn(o order, files []int) (reason string, err error) {
	want := 4
	if o.Script {
		want++
	}
	if len(files) != want {
		return "", fmt.Errorf("%d files came with the order, %d were expected", len(files), want)
	}
	argv, env := toStrings(o.Argv), toStrings(o.Env)
	stdio := []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])}
	if o.Script {
		stdio = append(stdio, uintptr(files[4]))
		argv = append(argv, "/proc/self/fd/3")
	}
	if _, err := os.Stat(o.Dir); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return sandbox.ReasonCwdNotFound, fmt.Errorf("there is no directory %s", o.Dir)
	}
	program, err := lookPath(argv[0], env)
	if err != nil {
		return sandbox.ReasonCommandNotFound, err
	}
	attr := &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: files[3]}
	if !p.singleUser {
		attr.Credential = &syscall.Credential{Uid: userID, Gid: groupID}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// The child is born as the preferred victim of a shortage of memory, and init goes back at once. Lowering is allowed down to the value at start.
	p.setOOMScore("1000")
	pid, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{Dir: o.Dir, Env: env, Files: stdio, Sys: attr})
	p.setOOMScore("0")
	switch {
	case errors.Is(err, unix.EAGAIN):
		return sandbox.ReasonProcessLimit, errors.New("no more processes are allowed in this sandbox")
	case errors.Is(err, unix.ENOENT):
		return sandbox.ReasonCommandNotFound, fmt.Errorf("%s: not found, or its interpreter is not", argv[0])
	case errors.Is(err, unix.ENOEXEC):
		return sandbox.ReasonCommandNotFound, fmt.Errorf("%s is not a program", argv[0])
	case errors.Is(err, unix.EACCES):
		return sandbox.ReasonCommandNotFound, fmt.Errorf("%s or the directory %s may not be used", argv[0], o.Dir)
	case err != nil:
		return "", err
	}
	p.children[pid], p.pids[o.ID] = o.ID, pid
	p.send(report{ID: o.ID, Event: evStarted})
	return "", nil
}

func (p *initProcess) setOOMScore(v string) { _, _ = unix.Pwrite(p.oomScore, []byte(v), 0) }

// reap collects every process that ends, orphans of commands included, and reports those that init started.
func (p *initProcess) reap(signals <-chan os.Signal) {
	for range signals {
		for p.reapOne() {
		}
	}
}

func (p *initProcess) reapOne() bool {
	var status syscall.WaitStatus
	var used syscall.Rusage
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &used)
	if err != nil || pid <= 0 {
		return errors.Is(err, syscall.EINTR)
	}
	id, ours := p.children[pid]
	if !ours {
		return true
	}
	delete(p.children, pid)
	delete(p.pids, id)
	r := report{ID: id, Event: evExit, Code: status.ExitStatus(), MaxRSS: used.Maxrss << 10}
	if status.Signaled() {
		r.Signal = int(status.Signal())
		r.Code = 128 + r.Signal
	}
	p.send(r)
	return true
}
