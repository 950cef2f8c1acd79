package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

const (
	// farewell is how long a process may take to end after its input was closed; then it is told to, and at last killed.
	farewell = time.Second
	// maxLine bounds one message of a process.
	maxLine = maxBody
	// keptErrors is how much of what a process says on its standard error goes into the log.
	keptErrors = 2 << 10
)

// allowed says whether the operator lets a declaration start its command.
func (c Config) allowed(s definition.Server) error {
	line := append([]string{s.Command}, s.Args...)
	for _, entry := range c.Commands {
		if want := strings.Fields(entry); len(want) > 0 && len(want) <= len(line) && slices.Equal(want, line[:len(want)]) {
			return nil
		}
	}
	return fmt.Errorf("the operator has not allowed the command %q (setting mcp-commands)", clip(strings.Join(line, " "), 200))
}

// stdio is a server that is a child process. It implements [mcp.Transport].
type stdio struct {
	server definition.Server
	log    *slog.Logger
	// work holds what outlives a connection: the wait for the end of its process.
	work *sync.WaitGroup
}

// Connect starts the process: in a group and a directory of its own, with the variables that the declaration names and hardly any other.
func (t *stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	for name, value := range t.server.Env {
		if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || name == "PATH" || strings.ContainsAny(name, "=\x00") {
			return nil, fmt.Errorf("the variable %s can't be set: it could change which program is run", name)
		}
		env = append(env, name+"="+value)
	}
	program, err := exec.LookPath(t.server.Command)
	if err == nil {
		program, err = filepath.Abs(program) // the process works elsewhere
	}
	if err != nil {
		return nil, fmt.Errorf("its command can't be started: %w", err)
	}
	dir, err := os.MkdirTemp("", "gantry-mcp-")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, t.server.Args...), dir: dir, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.SysProcAttr, p.cmd.WaitDelay, p.cmd.Stderr = dir, append(env, "HOME="+dir, "TMPDIR="+dir), ownGroup(), farewell, &p.tail
	if err := p.start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("its command can't be started: %w", err)
	}
	t.work.Go(func() { p.wait(t.log.With("server", t.server.Name)) })
	return (&mcp.IOTransport{Reader: p, Writer: input{p.in}, MaxLineLength: maxLine}).Connect(ctx)
}

// process is a server that runs. Its reader side is its output.
type process struct {
	cmd     *exec.Cmd
	dir     string
	in, out *os.File
	tail    tail
	ended   chan struct{}
	once    sync.Once
}

// writeWithin bounds one write: a process that does not read what it is sent must not hold the call.
const writeWithin = 5 * time.Second

// input is the standard input of a process.
type input struct{ *os.File }

func (w input) Write(b []byte) (int, error) {
	_ = w.SetWriteDeadline(time.Now().Add(writeWithin)) // pipes have deadlines wherever they can block others
	return w.File.Write(b)
}

// start gives the process pipes of ours and not of package exec, which would close its output at its end, before the last answer was read.
func (p *process) start() error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return err
	}
	p.in, p.out, p.cmd.Stdin, p.cmd.Stdout = in, out, theirIn, theirOut
	err = p.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		in.Close()
		out.Close()
	}
	return err
}

func (p *process) wait(log *slog.Logger) {
	err := p.cmd.Wait()
	killGroup(p.cmd.Process.Pid) // what it started and left
	os.RemoveAll(p.dir)
	if err != nil {
		log.Warn("an MCP server ended", "error", err, "stderr", p.tail.text())
	}
	close(p.ended)
}

func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Close begins to end the process and everything that it started, and does not wait for that: whoever closes a connection may be in a hurry.
func (p *process) Close() error {
	p.once.Do(func() {
		p.in.Close()
		p.out.Close()
		go func() {
			if !p.gone(farewell) {
				stopGroup(p.cmd.Process.Pid)
			}
			if !p.gone(farewell) {
				killGroup(p.cmd.Process.Pid)
			}
		}()
	})
	return nil
}

func (p *process) gone(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-keptErrors):]...)
	t.kept = slices.Clone(t.kept[max(0, len(t.kept)-keptErrors):])
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "�")
}
