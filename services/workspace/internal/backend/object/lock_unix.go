//go:build unix

package object

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockFile guards creation in a directory, where the package of the provider looks first and renames then, against other processes of this host.
func lockFile(dir string) func() (func(), error) {
	return func() (func(), error) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, mapError(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "create.lock"), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, mapError(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			_ = f.Close()
			return nil, mapError(err)
		}
		return func() { _ = f.Close() }, nil // closing unlocks
	}
}
