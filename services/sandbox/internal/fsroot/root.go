package fsroot

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var _ sandbox.Tree = (*Root)(nil)

// Root is a workspace beneath a directory handle.
type Root struct {
	dir  *os.File
	opt  Options
	lock *sync.RWMutex
}

// Options say how a workspace is accessed.
type Options struct {
	// UID and GID are the file system user of all operations, as the host sees them. Negative: that of this process.
	UID, GID int
	// CommandUID is the user of commands; what belongs to others is read-only for them. Negative: not known.
	CommandUID int
	// LimitBytes, LimitEntries and LimitFileBytes are what Usage reports as limits. 0: not limited.
	LimitBytes, LimitEntries, LimitFileBytes int64
	// Sync makes writes durable before they are reported.
	Sync bool
	// Lock orders writers of one workspace. All roots of one workspace in this process share it.
	Lock *sync.RWMutex
}

// New takes over an open directory.
func New(dir *os.File, opt Options) *Root {
	lock := opt.Lock
	if lock == nil {
		lock = new(sync.RWMutex)
	}
	return &Root{dir: dir, opt: opt, lock: lock}
}

// Close closes the directory handle.
func (r *Root) Close() error { return r.dir.Close() }

// as runs f on a thread whose file system user is that of the workspace.
func (r *Root) as(f func() error) error {
	if r.opt.UID < 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The group first: changing the user drops the right to change the group.
	if err := setfs(unix.SYS_SETFSGID, r.opt.GID); err != nil {
		return err
	}
	defer restorefs(unix.SYS_SETFSGID, os.Getegid())
	if err := setfs(unix.SYS_SETFSUID, r.opt.UID); err != nil {
		return err
	}
	defer restorefs(unix.SYS_SETFSUID, os.Geteuid())
	return f()
}

// setfs changes one file system id of this thread and checks it: the system call reports no errors.
func setfs(call uintptr, id int) error {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
	if got, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); int(got) != id {
		return fmt.Errorf("the file system user cannot be set to %d", id)
	}
	return nil
}

// restorefs undoes setfs. A thread that kept a foreign user would do later work under it, so that cannot be survived.
func restorefs(call uintptr, id int) {
	if err := setfs(call, id); err != nil {
		panic(err)
	}
}

const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// openat opens path beneath the root.
func (r *Root) openat(path string, flags int, mode uint32) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(mode), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(r.dir.Fd()), path, how)
		// The kernel says EAGAIN when a rename elsewhere made it impossible to prove that ".." stayed beneath.
		if (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && try < 100 {
			continue
		}
		return fd, err
	}
}

// openDir opens a directory for use with the *at calls.
func (r *Root) openDir(path string) (int, error) {
	return r.openat(path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// makeDirs opens a directory, creating what is missing of it.
func (r *Root) makeDirs(path string, mode uint32) (int, error) {
	fd, err := r.openDir(path)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		prefix := path[:i]
		next, err := r.openDir(prefix)
		if errors.Is(err, unix.ENOENT) {
			next, err = r.makeDir(prefix, mode)
		}
		if err != nil {
			return -1, err
		}
		if i == len(path) {
			return next, nil
		}
		_ = unix.Close(next)
	}
	return -1, unix.ENOENT
}

// makeDir creates one directory whose parent exists, and opens it.
func (r *Root) makeDir(path string, mode uint32) (int, error) {
	dir, name, err := split(path)
	if err != nil {
		return -1, err
	}
	parent, err := r.openDir(dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, name, mode); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return r.openDir(path)
}

// reopen turns a handle that may not be read (O_PATH) into one that may. It opens the very same file, whatever its path names by now.
func reopen(fd, flags int) (int, error) {
	return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}
