package namespace

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities of init in its user namespace: to signal commands, and to give them their user.
var kept = []int{unix.CAP_KILL, unix.CAP_SETUID, unix.CAP_SETGID}

// lastCap is past the last capability of any kernel that this was tried on. Dropping an unknown one is an error that is ignored.
const lastCap = 63

// stageTwo marks the init that was started again after its capabilities were dropped.
const stageTwo = "locked"

// dropCapabilities leaves all threads of init with the kept capabilities. Without cgo, Go can do that in place. With cgo it cannot: then the bounding
// set of one thread is emptied and the binary started again on it, which leaves that thread alone. In that case the function does not return.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range kept {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if e == 0 {
		return nil
	}
	if !errors.Is(e, syscall.ENOTSUP) {
		return e
	}
	runtime.LockOSThread()
	for c := range lastCap {
		if c != kept[0] && c != kept[1] && c != kept[2] {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(controlFD, unix.F_SETFD, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{InitArg0, stageTwo}, os.Environ())
}

// checkCapabilities proves that no thread state was left behind: init must not go on with more than it may have.
func checkCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	allowed := uint64(0)
	for _, c := range kept {
		allowed |= 1 << c
	}
	have := uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
	if have&^allowed != 0 {
		return errors.New("init has kept capabilities that it must not have")
	}
	return nil
}

// limitResources sets what commands inherit.
func limitResources(in setup) error {
	for _, l := range []struct {
		resource int
		value    int64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_NOFILE, in.Limits.OpenFiles}, {unix.RLIMIT_FSIZE, in.Limits.FileBytes},
		{unix.RLIMIT_MEMLOCK, 64 << 10}, {unix.RLIMIT_MSGQUEUE, 64 << 10},
	} {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{Cur: uint64(l.value), Max: uint64(l.value)}); err != nil {
			return err
		}
	}
	unix.Umask(0o022)
	return nil
}
