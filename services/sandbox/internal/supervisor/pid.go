package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const pidFile = "supervisor.pid"

// writePid leaves the pid of this process in the directory.
func writePid(dir string) error {
	return os.WriteFile(filepath.Join(dir, pidFile), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// endSupervisor waits until the supervisor of a directory is gone, and kills it when grace is over. A pid may belong to somebody else by now, so its command
// line must name the directory.
func endSupervisor(dir string, grace time.Duration) error {
	text, err := os.ReadFile(filepath.Join(dir, pidFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil || pid <= 1 {
		return nil
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // no such process
	}
	defer unix.Close(handle)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Equal(line, []byte(Arg0+"\x00"+dir+"\x00")) {
		return nil
	}
	if grace > 0 && gone(handle, grace) {
		return nil
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	if !gone(handle, 5*time.Second) {
		return fmt.Errorf("supervisor %d does not end", pid)
	}
	return nil
}

// gone waits until a process has ended: then its handle is readable.
func gone(handle int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(max(time.Until(deadline).Milliseconds(), 0)))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}
