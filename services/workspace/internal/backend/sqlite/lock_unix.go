//go:build unix

package sqlite

import (
	"fmt"
	"os"
	"syscall"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// lockFile takes the lock by which one process owns the store. The system gives it back when the process ends, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, mapError(fmt.Errorf("open the lock: %w", err))
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly,
			"another process owns the store %s: stop it, or choose another data directory", path).With("cause", "locked")
	}
	return f, nil
}
