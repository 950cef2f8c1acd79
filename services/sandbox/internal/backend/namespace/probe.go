package namespace

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Probe implements [sandbox.Driver]. It reads; it makes nothing.
func (d *Driver) Probe(context.Context) []sandbox.Feature {
	return []sandbox.Feature{
		probeArch(), probeUserNamespaces(), d.probeCgroups(), probeProc(), d.probeSystem(), probeBinary(), probeResolve(), probeUsers(),
		{Name: "landlock", OK: landlock() > 0, Detail: fmt.Sprintf("ABI %d; not used by this version", landlock())},
	}
}

func probeArch() sandbox.Feature {
	f := sandbox.Feature{Name: "seccomp", Required: true, OK: seccompSupported, Detail: "filter for " + runtime.GOARCH, Fix: "use a machine with amd64"}
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		f.OK, f.Detail, f.Fix = false, "the kernel has no seccomp filters", "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return f
}

func probeUserNamespaces() sandbox.Feature {
	f := sandbox.Feature{Name: "user namespaces", Required: true, OK: true, Fix: "set the sysctl user.max_user_namespaces, or run as root"}
	text, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	f.Detail = fmt.Sprintf("at most %d", n)
	if err != nil || n == 0 {
		f.OK, f.Detail = false, "the kernel allows none"
	}
	if os.Geteuid() == 0 {
		return f
	}
	for _, p := range []struct{ file, bad string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0"}, {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"},
	} {
		if text, err := os.ReadFile(p.file); err == nil && strings.TrimSpace(string(text)) == p.bad {
			f.OK, f.Detail, f.Fix = false, p.file+" forbids them to users", "run as root, or change that setting"
		}
	}
	return f
}

// probeCgroups finds the place for the groups and checks that it can be written.
func (d *Driver) probeCgroups() sandbox.Feature {
	f := sandbox.Feature{Name: "control groups", Required: true, Fix: "run as root, or delegate a control group (systemd: Delegate=yes) and set cgroup_parent to it"}
	h, err := findHierarchy("/proc/self", d.cfg.CgroupParent)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	kind := "version 2"
	if len(h.V1) > 0 {
		kind = "hybrid (version 1 controllers)"
	}
	for _, dir := range h.parents() {
		for len(dir) > 1 {
			if _, err := os.Stat(dir); err == nil {
				break
			}
			dir = filepath.Dir(dir)
		}
		if unix.Access(dir, unix.W_OK) != nil {
			f.Detail = kind + "; " + dir + " cannot be written"
			return f
		}
	}
	// The root group has no cgroup.kill, so any other one tells; without one, the kernel's version does.
	f.OK, f.Detail = true, kind+" below "+h.Unified
	if !kernelAtLeast(5, 14) {
		f.OK, f.Detail, f.Fix = false, "the kernel has no cgroup.kill", "use Linux 5.14 or newer"
	}
	return f
}

// probeProc checks that a new /proc may be mounted: the kernel refuses that where the one in sight has something mounted over it, as in most containers.
func probeProc() sandbox.Feature {
	f := sandbox.Feature{Name: "proc", Required: true, OK: true, Detail: "fully visible", Fix: "run the container with an unmasked /proc"}
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		f.OK, f.Detail = false, "/proc is not mounted"
		return f
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], "/proc/") && !strings.HasPrefix(fields[4], "/proc/sys/fs/binfmt_misc") {
			f.OK, f.Detail = false, "something is mounted over "+fields[4]
		}
	}
	return f
}

func (d *Driver) probeSystem() sandbox.Feature {
	f := sandbox.Feature{Name: "root file system", Required: true, Fix: "set rootfs to a directory with usr/bin/sh"}
	usr := filepath.Join(d.cfg.RootFS, "/usr")
	f.Detail = usr + ", read-only"
	if _, err := os.Stat(usr + "/bin/sh"); err != nil {
		f.Detail = usr + "/bin/sh is missing"
		return f
	}
	f.OK = true
	return f
}

// probeBinary checks that user 0 of a sandbox, who is nobody on the host, can start this binary.
func probeBinary() sandbox.Feature {
	f := sandbox.Feature{Name: "own binary", Required: true, OK: true, Detail: "can be started inside", Fix: "chmod 755 the gantry binary"}
	st, err := os.Stat("/proc/self/exe")
	if err != nil || st.Mode().Perm()&0o001 == 0 {
		f.OK, f.Detail = false, "others may not start it"
	}
	return f
}

func probeResolve() sandbox.Feature {
	f := sandbox.Feature{Name: "openat2", Required: true, OK: true, Detail: "resolution beneath a handle", Fix: "use Linux 5.12 or newer"}
	if !kernelAtLeast(5, 12) {
		f.OK, f.Detail = false, "the kernel has no openat2 or mount_setattr"
	}
	return f
}

// probeUsers says whether commands and init are different users.
func probeUsers() sandbox.Feature {
	if os.Geteuid() == 0 {
		return sandbox.Feature{Name: "separate users", OK: true, Detail: "each sandbox has 65,536 user ids of its own"}
	}
	return sandbox.Feature{Name: "separate users", Detail: "only one user id can be mapped without root: projection is refused", Fix: "run as root"}
}

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	_, _ = fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	return a > major || a == major && b >= minor
}

// landlock returns the ABI of Landlock, 0 without it.
func landlock() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	if e != 0 {
		return 0
	}
	return int(v)
}
