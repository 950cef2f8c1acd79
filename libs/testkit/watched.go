package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// A watched server is started through this script. It starts "$@" in the background, waits for the end of its input, which
// is a pipe from the test binary, then stops the server and removes its directory. So nothing outlives a test binary that
// ends, panics or is killed. The signal is the server's own for a quick stop.
const watch = `
dir=$1 signal=$2 grace=$3; shift 3
"$@" </dev/null & pid=$!
cat >/dev/null
kill -$signal $pid 2>/dev/null
( sleep $grace & s=$!; trap 'kill $s; exit' TERM; wait $s; kill -9 $pid ) 2>/dev/null & killer=$!
wait $pid
kill $killer 2>/dev/null
cd / && rm -rf "$dir"
`

// watched is a running server.
type watched struct {
	dir string // removed when the server ends
	log string
	pid int // of the watching shell
	in  *os.File
}

// startWatched starts a server. prefix goes before the watching shell (unshare and its flags), attr may change the user.
func startWatched(dir, signal string, grace int, attr *syscall.SysProcAttr, prefix, env []string, argv ...string) (*watched, error) {
	logPath := filepath.Join(dir, "server.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	full := append(append([]string{}, prefix...), "sh", "-c", watch, "watch", dir, signal, fmt.Sprint(grace))
	full = append(full, argv...)
	cmd := exec.Command(full[0], full[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = read, log, log, append(os.Environ(), env...), "/"
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true // an interrupt from the terminal is for the test binary alone
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	w := &watched{dir: dir, log: logPath, pid: cmd.Process.Pid, in: write}
	runningMu.Lock()
	defer runningMu.Unlock()
	running = append(running, w)
	return w, nil
}

// running keeps the pipes open until the test binary ends: a pipe that is collected as garbage is closed.
var (
	runningMu sync.Mutex
	running   []*watched
)

// stop ends the server now, without waiting for it.
func (w *watched) stop() { w.in.Close() }

// tail is the end of the server's log, for error messages.
func (w *watched) tail() string {
	b, err := os.ReadFile(w.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
