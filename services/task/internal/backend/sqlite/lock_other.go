//go:build !unix

package sqlite

import "os"

// lockFile opens the lock file. On this system nothing keeps a second process away.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
