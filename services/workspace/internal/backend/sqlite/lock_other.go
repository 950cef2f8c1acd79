//go:build !unix

package sqlite

import (
	"fmt"
	"os"
)

// lockFile opens the lock file. Systems without flock rely on the database's own locks.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, mapError(fmt.Errorf("open the lock: %w", err))
	}
	return f, nil
}
