package namespace

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompSupported says that there is a filter for this architecture.
const seccompSupported = true

// The instructions that the filter uses.
const (
	loadWord  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	jumpEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpGE    = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpSet   = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	andWord   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ret       = unix.BPF_RET | unix.BPF_K

	// Offsets in struct seccomp_data; arguments are 64 bits, low word first.
	offNumber, offArch         = 0, 4
	offArg0, offArg1, offArg2  = 16, 24, 32
	x32Bit                     = 0x4000_0000
	firstUnknown               = 469 // the first system call that this list has not considered
	openTreeAttr               = 467
	sIFMT, sIFCHR, sIFBLK      = 0xf000, 0x2000, 0x6000
	actionKill                 = unix.SECCOMP_RET_KILL_PROCESS
	actionErrno, actionAllowed = unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_ALLOW
)

// denied are the system calls that no command needs and that widen the attack surface: mounts and namespaces, keys, tracing, kernel modules, clocks,
// and interfaces with a history of escapes. They answer EPERM, as if for lack of rights.
var denied = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, openTreeAttr,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_ACCT,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_NFSSERVCTL, unix.SYS_VHANGUP, unix.SYS_PERSONALITY,
	unix.SYS_MKNOD, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MBIND, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SET_MEMPOLICY,
}

// families are the socket families that stay. AF_VSOCK is not among them: it reaches the hypervisor whatever the network namespace.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

type program []unix.SockFilter

func (p *program) add(code uint16, k uint32) { *p = append(*p, unix.SockFilter{Code: code, K: k}) }

// jump skips t instructions when the test holds and f when it does not.
func (p *program) jump(code uint16, k uint32, t, f uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: t, Jf: f, K: k})
}

func errnoAction(e uint32) uint32 { return actionErrno | e }

// filter assembles the program. The architecture comes first: a filter without that check is passed by the 32-bit calls (int 0x80).
func filter() program {
	p := program{}
	p.add(loadWord, offArch)
	p.jump(jumpEqual, unix.AUDIT_ARCH_X86_64, 1, 0)
	p.add(ret, actionKill)
	p.add(loadWord, offNumber)
	p.jump(jumpGE, x32Bit, 0, 1)
	p.add(ret, errnoAction(uint32(unix.ENOSYS)))
	p.jump(jumpGE, firstUnknown, 0, 1)
	p.add(ret, errnoAction(uint32(unix.ENOSYS)))
	for _, n := range denied {
		p.jump(jumpEqual, n, 0, 1)
		p.add(ret, errnoAction(uint32(unix.EPERM)))
	}
	// clone with a namespace flag. clone3 has its flags behind a pointer: the namespace limits of the user namespace cover it.
	p.jump(jumpEqual, unix.SYS_CLONE, 0, 4)
	p.add(loadWord, offArg0)
	p.jump(jumpSet, namespaceFlags, 0, 1)
	p.add(ret, errnoAction(uint32(unix.EPERM)))
	p.add(ret, actionAllowed)
	for _, call := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
		n := uint8(len(families))
		p.jump(jumpEqual, call, 0, n+3)
		p.add(loadWord, offArg0)
		for i, f := range families {
			p.jump(jumpEqual, f, n-uint8(i), 0)
		}
		p.add(ret, errnoAction(uint32(unix.EAFNOSUPPORT)))
		p.add(ret, actionAllowed)
	}
	// Pushing characters into a terminal, and taking the console.
	p.jump(jumpEqual, unix.SYS_IOCTL, 0, 6)
	p.add(loadWord, offArg1)
	p.jump(jumpEqual, unix.TIOCSTI, 2, 0)
	p.jump(jumpEqual, unix.TIOCLINUX, 1, 0)
	p.jump(jumpEqual, unix.TIOCCONS, 0, 1)
	p.add(ret, errnoAction(uint32(unix.EPERM)))
	p.add(ret, actionAllowed)
	// Device nodes; pipes, sockets and files may be made.
	p.jump(jumpEqual, unix.SYS_MKNODAT, 0, 5)
	p.add(loadWord, offArg2)
	p.add(andWord, sIFMT)
	p.jump(jumpEqual, sIFCHR, 1, 0)
	p.jump(jumpEqual, sIFBLK, 0, 1)
	p.add(ret, errnoAction(uint32(unix.EPERM)))
	p.add(ret, actionAllowed)
	return p
}

// installFilter puts all threads of this process under the filter, and sets no_new_privs on them.
func installFilter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := filter()
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	if r != 0 {
		return fmt.Errorf("thread %d could not be put under the filter", r)
	}
	return nil
}
