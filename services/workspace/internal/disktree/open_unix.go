//go:build unix

package disktree

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openDirectory opens a directory beneath a root.
func openDirectory(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openDirIn opens a directory by its name in another one. A link is an error.
func openDirIn(dir int, name string) (*os.File, error) {
	fd, err := openat(dir, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// rawFile is a file without what [os.File] adds to it, which costs as much as the reading of a small file does.
type rawFile int

// openFileIn opens a file by its name in a directory, to be read once. A link is an error.
func openFileIn(dir int, name string) (io.ReadCloser, error) {
	fd, err := openat(dir, name, 0)
	return rawFile(fd), err
}

// Read implements [io.Reader].
func (f rawFile) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(f), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Close implements [io.Closer].
func (f rawFile) Close() error { return unix.Close(int(f)) }

// signatureIn tells whether a file of a directory is still the same, as [Signature] does. The two are not compared with each other.
func signatureIn(dir int, name string) (string, error) {
	var s unix.Stat_t
	if err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", s.Ino, s.Size, s.Mode, s.Mtim.Nano(), s.Ctim.Nano()), nil
}
