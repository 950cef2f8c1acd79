package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// drainGrace is how long output is still read after the main process has ended. What holds the pipes open beyond it is killed.
const drainGrace = 50 * time.Millisecond

// execution is one exec: running, or ended and remembered.
type execution struct {
	log   *outputLog
	child Child
	done  chan struct{} // closed after record holds the exit

	mu     sync.Mutex
	record sandbox.Record
	stdin  *os.File
	timed  bool
}

func (e *execution) snapshot() sandbox.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.record
}

// title is the command in one line.
func title(c *sandbox.Command) string {
	text := strings.Join(c.Argv, " ")
	if len(c.Script) > 0 {
		text = string(c.Script[:min(len(c.Script), 400)])
	}
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	for len(text) > 200 {
		_, n := utf8.DecodeLastRuneInString(text[:200])
		text = text[:200-n]
	}
	return text
}

// start makes the pipes, forks, and leaves goroutines that drain, time and record. When the program cannot be started the execution has ended with 127.
func (s *Server) start(e *execution, cmd *sandbox.Command) {
	begin := time.Now()
	files, err := openFiles(cmd)
	if err != nil {
		s.finish(e, Status{Code: 127}, Usage{}, begin, err)
		return
	}
	argv := cmd.Argv
	if files.script != nil {
		argv = cmd.Interpreter
		if len(argv) == 0 {
			argv = []string{s.shell}
		}
	}
	child, err := s.spawner.Spawn(SpawnRequest{
		ID: e.record.ID, Argv: argv, Env: cmd.Environment(s.spawner.Home()), Dir: cmd.WorkDir(s.spawner.WorkspaceDir()),
		Stdin: files.childIn, Stdout: files.childOut, Stderr: files.childErr, Script: files.script,
	})
	files.closeChild()
	if err != nil {
		files.closeOwn()
		s.finish(e, Status{Code: 127}, Usage{}, begin, err)
		return
	}
	e.mu.Lock()
	e.child, e.stdin = child, files.in
	e.mu.Unlock()
	go s.watch(e, cmd, files, begin)
}

// watch sees one exec through to its end.
func (s *Server) watch(e *execution, cmd *sandbox.Command, files *stdio, begin time.Time) {
	var pumps sync.WaitGroup
	pumps.Go(func() { pump(e.log, sandbox.Stdout, files.out) })
	pumps.Go(func() { pump(e.log, sandbox.Stderr, files.err) })
	drained := make(chan struct{})
	go func() { pumps.Wait(); close(drained) }()

	stop := e.limits(cmd)
	status := e.child.Wait()
	stop()
	e.closeStdin()

	held := false
	grace := time.NewTimer(drainGrace)
	select {
	case <-drained:
	case <-grace.C:
		held = true
	}
	grace.Stop()
	usage := e.child.Finish()
	if held {
		// The writers are dead or dying. Read what they left in the pipes, and no longer.
		_ = files.out.SetReadDeadline(time.Now().Add(drainGrace))
		_ = files.err.SetReadDeadline(time.Now().Add(drainGrace))
		<-drained
		usage.LeftBehind = true
	}
	files.closeOwn()
	s.finish(e, status, usage, begin, nil)
}

// limits starts the timers of a command. The returned function stops them.
func (e *execution) limits(cmd *sandbox.Command) (stop func()) {
	var timers []*time.Timer
	after := func(d time.Duration, f func()) {
		timers = append(timers, time.AfterFunc(d, func() {
			e.mu.Lock()
			e.timed = true
			e.mu.Unlock()
			f()
		}))
	}
	if cmd.Soft > 0 && (cmd.Hard == 0 || cmd.Soft < cmd.Hard) {
		after(cmd.Soft, func() { _ = e.child.Signal(int(unix.SIGTERM)) })
		after(cmd.Soft+sandbox.SoftGrace, e.child.Kill)
	}
	if cmd.Hard > 0 {
		after(cmd.Hard, e.child.Kill)
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// finish records the end and tells those who follow.
func (s *Server) finish(e *execution, status Status, usage Usage, begin time.Time, failure error) {
	out, errs := e.log.totals()
	e.mu.Lock()
	e.record.End = time.Now()
	x := &e.record.Exit
	*x = sandbox.Exit{
		State: sandbox.StateExited, Code: status.Code, Signal: status.Signal, TimedOut: e.timed, OOM: usage.OOM, LeftBehind: usage.LeftBehind,
		StdoutBytes: out, StderrBytes: errs, Wall: time.Since(begin), CPU: usage.CPU, MemoryPeak: max(usage.Memory, status.MaxRSS),
	}
	if status.Lost {
		x.State = sandbox.StateLost
	}
	if failure != nil {
		x.StartError, x.StartReason = failure.Error(), errdefs.ReasonOf(failure)
	}
	record := e.record
	e.mu.Unlock()
	if err := s.journal.write(record); err != nil {
		s.logger.Error("the end of an exec could not be recorded", "exec", record.ID, "error", err)
	}
	e.log.close()
	close(e.done)
	s.retire(e)
}

// pump drains one stream. It reads until the writers are gone, so a command never blocks on its output.
func pump(l *outputLog, stream int, r *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			l.append(stream, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// writeStdin passes input on. A command that does not read blocks its caller, nobody else.
func (e *execution) writeStdin(p []byte) error {
	e.mu.Lock()
	f := e.stdin
	e.mu.Unlock()
	if f == nil {
		return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonStdinClosed, "standard input is closed")
	}
	if _, err := f.Write(p); err != nil {
		if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
			return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonStdinClosed, "the command closed its standard input")
		}
		return err
	}
	return nil
}

func (e *execution) closeStdin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stdin != nil {
		_ = e.stdin.Close()
		e.stdin = nil
	}
}

// stdio holds both ends of the files of one exec.
type stdio struct {
	in, out, err                        *os.File
	childIn, childOut, childErr, script *os.File
}

func openFiles(cmd *sandbox.Command) (f *stdio, err error) {
	f = &stdio{}
	defer func() {
		if err != nil {
			f.closeChild()
			f.closeOwn()
			f = nil
		}
	}()
	if cmd.Stdin {
		if f.childIn, f.in, err = os.Pipe(); err != nil {
			return f, err
		}
	} else if f.childIn, err = os.Open(os.DevNull); err != nil {
		return f, err
	}
	if f.out, f.childOut, err = os.Pipe(); err != nil {
		return f, err
	}
	if f.err, f.childErr, err = os.Pipe(); err != nil {
		return f, err
	}
	if len(cmd.Script) > 0 {
		f.script, err = scriptFile(cmd.Script)
	}
	return f, err
}

// scriptFile puts a script into a sealed memory file, which any user can read and nobody can change.
func scriptFile(script []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "script")
	_, err = f.Write(script)
	if err == nil {
		err = unix.Fchmod(fd, 0o444)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (f *stdio) closeChild() { closeAll(f.childIn, f.childOut, f.childErr, f.script) }

// closeOwn leaves the input to the execution, which may have closed it already.
func (f *stdio) closeOwn() { closeAll(f.out, f.err) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
