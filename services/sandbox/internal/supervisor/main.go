package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Arg0 is the name under which a binary is started again as a supervisor.
const Arg0 = "gantry-sandbox-supervisor"

const (
	socketFile = "ctl.sock"
	specFile   = "spec.json"
	logFile    = "supervisor.log"
	// unsavedFile is there while the sandbox has changes that no snapshot has.
	unsavedFile = "unsaved"
	// orphanTimeout ends a sandbox that no service has asked for and in which nothing runs, when its spec says nothing else. One whose directory was removed ends at
	// the next look.
	orphanTimeout = time.Hour
	// unsavedTimeout is the same for one with unsaved changes: only a service can save them, but memory is not held for ever.
	unsavedTimeout = 24 * time.Hour
	lookInterval   = 10 * time.Second
)

// Main is the supervisor process. args[1] is the directory of the instance; file 3 is a pipe on which it reports that it is ready, or why not. The return
// value is the exit code.
func Main(args []string, factories map[string]Factory) int {
	// Caught, not ignored: commands would inherit that a signal is ignored, and could not trap it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	ready := os.NewFile(3, "ready")
	syscall.CloseOnExec(3)
	report := func(err error) int {
		resp := response{Error: toWire(err)}
		_ = writeFrame(ready, resp, nil)
		_ = ready.Close()
		if err != nil {
			return 1
		}
		return 0
	}
	if len(args) != 2 {
		return report(fmt.Errorf("usage: %s DIR", Arg0))
	}
	s, listener, err := setUp(args[1], factories)
	if err != nil {
		return report(err)
	}
	report(nil)
	var once sync.Once
	quit := make(chan struct{})
	destroyed := func() { once.Do(func() { close(quit) }) }
	go s.serve(listener, destroyed)
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			_ = listener.Close()
			return 0
		case <-tick.C:
			_, err := os.Stat(filepath.Join(s.dir, specFile))
			if (errors.Is(err, fs.ErrNotExist) || s.idle(s.patience())) && s.stop() == nil {
				_ = os.RemoveAll(s.dir)
				return 0
			}
		}
	}
}

// patience is how long a service may not ask for the sandbox before it ends.
func (s *Server) patience() time.Duration {
	d := s.spec.OrphanTimeout
	if d <= 0 {
		d = orphanTimeout
	}
	if _, err := os.Stat(filepath.Join(s.dir, unsavedFile)); !errors.Is(err, fs.ErrNotExist) {
		d = max(d, unsavedTimeout)
	}
	return d
}

// setUp makes the sandbox and the socket. After an error nothing is left.
func setUp(dir string, factories map[string]Factory) (s *Server, l *net.UnixListener, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return nil, nil, err
	}
	var in stored
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, err
	}
	factory := factories[in.Spec.Driver]
	if factory == nil {
		return nil, nil, fmt.Errorf("no driver %q in this binary", in.Spec.Driver)
	}
	// Socket paths are short; the working directory makes any directory do.
	if err := os.Chdir(dir); err != nil {
		return nil, nil, err
	}
	if err := writePid(dir); err != nil {
		return nil, nil, err
	}
	spawner, err := factory(dir, in.Spec, in.Config)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = spawner.Close()
		}
	}()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("sandbox", in.Spec.ID)
	s, err = newServer(dir, in.Spec, spawner, defaultShell(), logger)
	if err != nil {
		return nil, nil, err
	}
	l, err = net.ListenUnix("unix", &net.UnixAddr{Name: socketFile, Net: "unix"})
	return s, l, err
}

// defaultShell prefers bash: it is what scripts are written for.
func defaultShell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}
