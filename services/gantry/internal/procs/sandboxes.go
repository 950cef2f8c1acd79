package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// supervisor is the name of the process that keeps a sandbox, whose argument is the sandbox's directory.
const supervisor = "gantry-sandbox-supervisor"

// EndSandboxes ends the sandboxes whose state is below a directory. They outlive the service by design; whoever throws the
// directory away must end them first.
func EndSandboxes(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		name, rest, _ := strings.Cut(string(line), "\x00")
		if name != supervisor || !strings.HasPrefix(rest, dir+string(filepath.Separator)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		// What is inside ends with it: the first process of the sandbox is its child.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, fmt.Errorf("procs: end the sandbox of process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
