package testkit

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a server that the kit has started.
type Server struct {
	// URL under which clients reach it.
	URL     string
	watched *watched
}

// Freeze stops the server where it is, so that it answers nobody and refuses nobody, until the test ends or the returned function is called.
func (s Server) Freeze(tb testing.TB) (thaw func()) {
	tb.Helper()
	pid, err := s.watched.child()
	if err != nil {
		tb.Skipf("the server can't be frozen here: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		tb.Fatalf("freeze the server: %v", err)
	}
	thaw = func() {
		// A server that is gone by now needs no thaw.
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	tb.Cleanup(thaw)
	return thaw
}

// child is the process that the watching shell has started first.
func (w *watched) child() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", w.pid, w.pid))
	if err != nil {
		return 0, err
	}
	for _, pid := range strings.Fields(string(text)) {
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err == nil && strings.TrimSpace(string(name)) != "cat" {
			return strconv.Atoi(pid)
		}
	}
	return 0, fmt.Errorf("no server below process %d", w.pid)
}

// Kill ends the server at once, as a crash would, and returns when it is gone. Its data goes with it.
func (s Server) Kill(tb testing.TB) {
	tb.Helper()
	pid, err := s.watched.child()
	if err != nil {
		tb.Skipf("the server can't be killed here: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		tb.Fatalf("kill the server: %v", err)
	}
	Eventually(tb, 10*time.Second, func() error {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}
