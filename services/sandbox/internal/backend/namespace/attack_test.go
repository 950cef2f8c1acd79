package namespace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox/drivertest"
)

// attackArg0 is the name under which this test binary is the attacker.
const attackArg0 = "gantry-attack"

// attacks are what a command might try. Each returns nil when it succeeded, which is when the sandbox has failed.
var attacks = map[string]func(arg string) error{
	"open": func(p string) error {
		text, err := os.ReadFile(p)
		if err == nil && len(text) == 0 {
			return errors.New("empty")
		}
		return err
	},
	"open for writing": func(p string) error { f, err := os.OpenFile(p, os.O_WRONLY, 0); _ = f.Close(); return err },
	"create":           func(p string) error { f, err := os.Create(p); _ = f.Close(); return err },
	"mount":            func(string) error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
	"bind root":        func(string) error { return unix.Mount("/", "/tmp", "", unix.MS_BIND|unix.MS_REC, "") },
	"remount usr":      func(string) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"umount":           func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) },
	"fsopen":           func(string) error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"open_tree":        func(string) error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
	"pivot_root":       func(string) error { return unix.PivotRoot("/tmp", "/tmp") },
	"chroot":           func(string) error { return unix.Chroot("/tmp") },
	"mknod block":      func(string) error { return unix.Mknod("/workspace/blk", unix.S_IFBLK|0o666, 254<<8) },
	"mknodat char":     func(string) error { return unix.Mknodat(unix.AT_FDCWD, "/workspace/chr", unix.S_IFCHR|0o666, 1<<8|1) },
	"setuid 0":         func(string) error { return unix.Setresuid(0, 0, 0) },
	"new user ns":      func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"new mount ns":     func(string) error { return unix.Unshare(unix.CLONE_NEWNS) },
	"clone user ns":    func(string) error { return clone(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) },
	"clone3 user ns": func(string) error {
		args := [11]uint64{0: unix.CLONE_NEWUSER, 4: uint64(unix.SIGCHLD)}
		return call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	},
	"kill":        func(pid string) error { return unix.Kill(number(pid), unix.SIGKILL) },
	"ptrace":      func(pid string) error { return unix.PtraceAttach(number(pid)) },
	"keyring":     func(string) error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true); return err },
	"bpf":         func(string) error { return call(unix.SYS_BPF, 0, 0, 0) },
	"perf":        func(string) error { return call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0) },
	"userfaultfd": func(string) error { return call(unix.SYS_USERFAULTFD, 1, 0, 0) },
	"io_uring": func(string) error {
		var b [256]byte
		return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&b)), 0)
	},
	"open by handle": func(string) error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0) },
	"set clock":      func(string) error { var t unix.Timespec; return unix.ClockSettime(unix.CLOCK_REALTIME, &t) },
	"set host name":  func(string) error { return unix.Sethostname([]byte("evil")) },
	"personality":    func(string) error { return call(unix.SYS_PERSONALITY, 0x0040000, 0, 0) },
	"vsock":          func(string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
	"packet":         func(string) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
	"raw icmp":       func(string) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) },
	"af_alg":         func(string) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
	"dial":           func(a string) error { c, err := net.DialTimeout("tcp", a, time.Second); closeConn(c); return err },
	"dial unix":      func(a string) error { c, err := net.DialTimeout("unix", a, time.Second); closeConn(c); return err },
	"raise open files": func(string) error {
		return syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20})
	},
	"real time": func(string) error {
		var p [1]int32
		p[0] = 10
		return call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&p)))
	},
	"raise priority":   func(string) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -10) },
	"hard link of usr": func(string) error { return unix.Link("/usr/bin/env", "/workspace/env2") },
	"sparse file":      func(string) error { return os.Truncate("/workspace/f", 1<<42) },
	"core dumps":       func(string) error { return limitZero(unix.RLIMIT_CORE) },
	"lower oom score":  func(string) error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) },
	"signal init":      func(string) error { return unix.Kill(1, unix.SIGTERM) },
	"signal init by pidfd": func(string) error {
		fd, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	},
	"files of init by pidfd": func(string) error {
		fd, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 3, 0)
		return err
	},
	"open files of the service": func(string) error {
		list, _ := os.ReadDir("/proc/self/fd")
		for _, f := range list {
			if n := number(f.Name()); n > 2 {
				if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && !strings.HasPrefix(to, "/proc/") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/memfd:script") {
					return nil
				}
			}
		}
		return errors.New("none")
	},
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func call(nr, a, b, c uintptr) error {
	if _, _, e := unix.Syscall6(nr, a, b, c, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// clone forks with flags; the child ends at once.
func clone(nr, flags uintptr) error {
	pid, _, e := unix.RawSyscall6(nr, flags, 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func socket(family, kind, proto int) error { _, err := unix.Socket(family, kind, proto); return err }

func closeConn(c net.Conn) {
	if c != nil {
		_ = c.Close()
	}
}

func limitZero(resource int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(resource, &l); err == nil && l.Max == 0 {
		return errors.New("zero")
	}
	return nil
}

// attack runs one attack and reports by its exit code: 0 means that it succeeded.
func attack(args []string) int {
	err := attacks[args[1]](args[2])
	fmt.Println(err)
	if err != nil {
		return 1
	}
	return 0
}

// attacker is a sandbox with the attacker's program in it.
func attacker(t *testing.T) sandbox.Instance {
	t.Helper()
	d := newDriver(t, t.TempDir())
	in, err := d.Create(t.Context(), sandbox.Spec{ID: "attacker", Limits: sandbox.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Destroy(context.Background()) })
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if _, err := drivertest.Files(t, in).Write(t.Context(), "atk", self, sandbox.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestAttacks(t *testing.T) {
	in := attacker(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("zq1"), 0o644); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@gantry-attack-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	victim := strconv.Itoa(os.Getpid())
	type try struct{ what, arg string }
	tries := []try{
		{"open", "/etc/shadow"}, {"open", secret}, {"open", "/proc/1/root/etc/shadow"}, {"open", "/proc/1/environ"}, {"open", "/proc/1/mem"},
		{"open", "/proc/1/cmdline"}, {"open for writing", "/proc/1/exe"}, {"open for writing", "/proc/self/exe"},
		{"open", "/proc/kallsyms"}, {"open", "/proc/kcore"}, {"open", "/proc/keys"}, {"open", "/dev/kmsg"}, {"open", "/dev/kvm"}, {"open", "/dev/vda"}, {"open", "/dev/mem"},
		{"open", "/sys/kernel/notes"}, {"open", "/sys/fs/cgroup/cgroup.procs"},
		{"open for writing", "/proc/sys/kernel/core_pattern"}, {"open for writing", "/proc/sysrq-trigger"}, {"open for writing", "/proc/sys/user/max_user_namespaces"},
		{"create", "/usr/evil"}, {"create", "/etc/evil"}, {"create", "/dev/evil"}, {"create", "/evil"}, {"create", "/root/evil"},
		{"umount", "/workspace"}, {"umount", "/proc"}, {"umount", "/proc/sys"},
		{"kill", "1"}, {"kill", victim}, {"ptrace", "1"}, {"ptrace", victim},
		{"dial", tcp.Addr().String()}, {"dial", "169.254.169.254:80"}, {"dial unix", abstract.Addr().String()},
	}
	for name := range attacks {
		if used := strings.Contains("open|open for writing|create|umount|kill|ptrace|dial|dial unix", name); !used {
			tries = append(tries, try{name, ""})
		}
	}
	for _, a := range tries {
		if os.Geteuid() != 0 && strings.Contains("kill 1|signal init |setuid 0 |signal init by pidfd ", a.what+" "+a.arg) {
			continue // one user inside: a signal may be sent to init, which takes none, and there is no other user to become
		}
		t.Run(a.what+" "+a.arg, func(t *testing.T) {
			script := fmt.Sprintf("exec -a %s ./atk '%s' '%s'", attackArg0, a.what, a.arg)
			r := drivertest.Script(t, in, script)
			if r.Exit.Code != 1 {
				t.Errorf("code %d signal %d: %s%s", r.Exit.Code, r.Exit.Signal, r.Stdout, r.Stderr)
			}
		})
	}
	if r := drivertest.Script(t, in, "echo alive"); r.Stdout != "alive\n" {
		t.Errorf("the sandbox did not survive: %+v", r)
	}
}

// int80 is a program that makes one system call the 32-bit way and exits with 0 when it succeeded.
func int80(number, arg uint32) []byte {
	code := []byte{0xb8}
	code = binary.LittleEndian.AppendUint32(code, number) // mov eax, number
	code = binary.LittleEndian.AppendUint32(append(code, 0xbb), arg)
	code = append(code, 0xcd, 0x80)                                     // int 0x80
	code = append(code, 0x31, 0xff, 0x85, 0xc0, 0x79, 0x02, 0xff, 0xc7) // edi = eax < 0 ? 1 : 0
	code = append(code, 0xb8, 60, 0, 0, 0, 0x0f, 0x05)                  // exit(edi)
	const base, head = 0x400000, 120
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	le := binary.LittleEndian
	elf = le.AppendUint16(le.AppendUint16(elf, 2), 62)
	elf = le.AppendUint32(elf, 1)
	for _, v := range []uint64{base + head, 64, 0} {
		elf = le.AppendUint64(elf, v)
	}
	elf = le.AppendUint32(elf, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(le.AppendUint32(elf, 1), 5)
	size := uint64(head + len(code))
	for _, v := range []uint64{0, base, base, size, size, 4096} {
		elf = le.AppendUint64(elf, v)
	}
	return append(elf, code...)
}

func TestThe32BitCallsAreClosed(t *testing.T) {
	in := attacker(t)
	tree := drivertest.Files(t, in)
	// On the host the program works, so the test is real.
	host := filepath.Join(t.TempDir(), "getpid")
	if err := os.WriteFile(host, int80(20, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(host, []string{host}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(); err != nil || st.ExitCode() != 0 {
		t.Skipf("this kernel has no 32-bit calls: %v %v", st, err)
	}
	for name, program := range map[string][]byte{"getpid": int80(20, 0), "unshare": int80(310, unix.CLONE_NEWUSER)} {
		if _, err := tree.Write(t.Context(), name, strings.NewReader(string(program)), sandbox.WriteOptions{Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if r := drivertest.Exec(t, in, sandbox.Command{Argv: []string{"./" + name}}); r.Exit.Signal != int(unix.SIGSYS) {
			t.Errorf("%s: %+v", name, r.Exit)
		}
	}
}

// TestTheFilterIsReal proves that the attack list would notice a missing filter: without it, calls that need no rights succeed on the host.
func TestTheFilterIsReal(t *testing.T) {
	for _, name := range []string{"personality", "io_uring"} {
		if err := attacks[name](""); err != nil {
			t.Skipf("%s does not work on this host either: %v", name, err)
		}
	}
}
