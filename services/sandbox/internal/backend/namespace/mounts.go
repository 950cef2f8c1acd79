package namespace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// step runs the steps of a set-up until one fails.
type step struct{ err error }

func (s *step) do(what string, f func() error) {
	if s.err != nil {
		return
	}
	if err := f(); err != nil {
		s.err = fmt.Errorf("%s: %w", what, err)
	}
}

const readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// bind shows a host path. mount_setattr sets the flags on the whole tree without knowing which flags the source has locked.
func (s *step) bind(source, target string, attr uint64) {
	s.do("bind "+source, func() error {
		if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
		return unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr})
	})
}

func (s *step) protect(target string, flags uint) {
	s.do("protect "+target, func() error {
		return unix.MountSetattr(unix.AT_FDCWD, target, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	})
}

func (s *step) dir(path string, mode os.FileMode) string {
	s.do("make "+path, func() error { return os.MkdirAll(path, mode) })
	return path
}

func (s *step) file(path, content string) {
	s.do("make "+path, func() error { return os.WriteFile(path, []byte(content), 0o644) })
}

// etcShown are the entries of /etc that programs under /usr need: links that commands go through, libraries, certificates. Nothing with names or secrets.
var etcShown = []string{"alternatives", "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "python3*", "mime.types", "terminfo", "localtime", "timezone"}

// buildRoot makes the root file system of the sandbox and moves into it. Afterwards the host's file system cannot be named.
func buildRoot(in setup) error {
	s := &step{}
	s.do("private mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") })
	root, err := scratch(in.RootFS)
	if err != nil {
		return err
	}
	s.do("root", func() error {
		return unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,nr_inodes=2k,mode=755")
	})
	for _, d := range []string{"usr", "etc", "proc", "dev", "tmp", "workspace", "home/agent", "var/tmp", "run", "opt", "root", "mnt", "srv"} {
		s.dir(filepath.Join(root, d), 0o755)
	}
	s.system(in.RootFS, root)
	s.devices(root)
	s.storage(root, in)
	s.do("proc", func() error {
		return unix.Mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible")
	})
	s.do("pivot_root", func() error {
		if err := unix.Chdir(root); err != nil {
			return err
		}
		if err := unix.PivotRoot(".", "."); err != nil {
			return err
		}
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return err
		}
		return unix.Chdir("/")
	})
	s.protect("/", 0)
	s.protect("/dev", 0)
	s.do("namespace limits", noMoreNamespaces)
	s.maskProc()
	s.do("host name", func() error { return unix.Sethostname([]byte("sandbox")) })
	s.do("loopback", loopbackUp)
	return s.err
}

// scratch finds a directory to mount the new root over. Only this mount namespace sees that.
func scratch(rootfs string) (string, error) {
	for _, d := range []string{"/mnt", "/media", "/srv", "/tmp", "/sys"} {
		if st, err := os.Stat(d); err == nil && st.IsDir() && !strings.HasPrefix(rootfs+"/", d+"/") {
			return d, nil
		}
	}
	return "", errors.New("there is no directory to build the root in")
}

// system shows /usr and the needed part of /etc.
func (s *step) system(rootfs, root string) {
	s.bind(rootfs+"/usr", root+"/usr", readOnly)
	for _, pattern := range etcShown {
		found, _ := filepath.Glob(filepath.Join(rootfs, "/etc", pattern))
		for _, source := range found {
			st, err := os.Stat(source)
			if err != nil {
				continue
			}
			target := filepath.Join(root, strings.TrimPrefix(source, rootfs))
			s.dir(filepath.Dir(target), 0o755)
			if st.IsDir() {
				s.dir(target, 0o755)
			} else {
				s.file(target, "")
			}
			s.bind(source, target, readOnly)
		}
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if st, err := os.Stat(filepath.Join(rootfs, "/usr", l)); err == nil && st.IsDir() {
			s.do("link "+l, func() error { return os.Symlink("usr/"+l, filepath.Join(root, l)) })
		}
	}
	s.file(root+"/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
	s.file(root+"/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n")
	s.file(root+"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n")
	s.file(root+"/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
	s.file(root+"/etc/resolv.conf", "")
}

// devices makes a /dev with the harmless character devices and a terminal multiplexer of its own.
func (s *step) devices(root string) {
	dev := root + "/dev"
	s.do("dev", func() error {
		return unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,nr_inodes=64,mode=755")
	})
	for _, n := range []string{"null", "zero", "full", "random", "urandom"} {
		s.file(filepath.Join(dev, n), "")
		s.do("device "+n, func() error { return unix.Mount("/dev/"+n, filepath.Join(dev, n), "", unix.MS_BIND, "") })
	}
	for link, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"} {
		s.do("device "+link, func() error { return os.Symlink(to, filepath.Join(dev, link)) })
	}
	s.dir(dev+"/pts", 0o755)
	s.dir(dev+"/shm", 0o755)
	s.do("devpts", func() error {
		return unix.Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	})
}

// storage makes the writable places, each with limits on bytes and entries.
func (s *step) storage(root string, in setup) {
	temp := fmt.Sprintf("size=%d,nr_inodes=20k,mode=1777", in.Limits.TempBytes)
	for _, d := range []string{"/tmp", "/dev/shm"} {
		s.do("storage "+d, func() error {
			return unix.Mount("tmpfs", root+d, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, temp)
		})
	}
	owner := fmt.Sprintf(",uid=%d,gid=%d", userID, groupID)
	if in.SingleUser {
		owner = ""
	}
	s.do("home", func() error {
		return unix.Mount("tmpfs", root+homeDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,nr_inodes=20k,mode=755", in.Limits.TempBytes)+owner)
	})
	// Sticky, and writable for the group alone: commands make and change what is theirs, and cannot touch what belongs to user 0.
	mode := fmt.Sprintf("mode=1775,uid=0,gid=%d", groupID)
	if in.SingleUser {
		mode = "mode=755"
	}
	s.do("workspace", func() error {
		return unix.Mount("tmpfs", root+workspaceDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
			fmt.Sprintf("size=%d,nr_inodes=%d,%s", in.Limits.DiskBytes, in.Limits.DiskEntries, mode))
	})
}

// noMoreNamespaces sets the limits of this user namespace to zero: it covers clone3, whose flags a seccomp filter cannot see.
func noMoreNamespaces() error {
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup", "time"} {
		if err := os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// maskProc makes the writable parts of /proc read-only and hides what tells about the host.
func (s *step) maskProc() {
	for _, p := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"} {
		if _, err := os.Stat(p); err == nil {
			s.do("bind "+p, func() error { return unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, "") })
			s.protect(p, unix.AT_RECURSIVE)
		}
	}
	for _, p := range []string{"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/kallsyms", "/proc/cmdline", "/proc/config.gz", "/proc/sched_debug", "/proc/kmsg", "/proc/vmcore"} {
		if _, err := os.Stat(p); err == nil {
			s.do("mask "+p, func() error { return unix.Mount("/dev/null", p, "", unix.MS_BIND, "") })
		}
	}
}

// loopbackUp makes 127.0.0.1 work: it reaches nothing but the sandbox itself.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
