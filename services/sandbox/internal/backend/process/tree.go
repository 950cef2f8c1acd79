package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupParent is the version 2 control group below which instances are made. Empty: none can be written.
func cgroupParent() string {
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && unix.Access(root, unix.W_OK) == nil {
			return filepath.Join(root, "gantry-process")
		}
	}
	return ""
}

// destroyGroup kills what is in a group and below, and removes it.
func destroyGroup(dir string) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	leaves, _ := os.ReadDir(dir)
	for _, l := range leaves {
		if l.IsDir() {
			if err := removeGroup(filepath.Join(dir, l.Name()), 10*time.Second); err != nil {
				return err
			}
		}
	}
	return removeGroup(dir, 10*time.Second)
}

// removeGroup removes a group as soon as its killed processes are gone. The kernel has no way to wait for that.
func removeGroup(dir string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// marker is the variable that says which exec a process belongs to.
func marker(instance, exec string) string { return "GANTRY_EXEC=" + instance + "/" + exec }

// killMarked kills the processes of an exec, or of the whole instance, until a look over all processes finds no more: a process may fork while it is
// being looked for. It says whether there were any.
func killMarked(instance, exec string) (found bool) {
	want := []byte(marker(instance, exec))
	for range 100 {
		pids := marked(want, exec != "")
		if len(pids) == 0 {
			return found
		}
		found = true
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	return found
}

// marked lists the living processes with the variable, and all their descendants. exact: the whole value must match, not only its beginning.
func marked(want []byte, exact bool) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	hit, parent := map[int]bool{}, map[int]int{}
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		ppid, state := parentOf(d)
		if pid == os.Getpid() || state == "Z" || state == "X" || state == "" {
			continue
		}
		parent[pid] = ppid
		env, _ := os.ReadFile(d + "/environ")
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(v, want) || !exact && bytes.HasPrefix(v, want) {
				hit[pid] = true
			}
		}
	}
	for pid := range parent {
		for p := pid; p > 1; p = parent[p] {
			if hit[p] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// parentOf reads the parent and the state of a process.
func parentOf(dir string) (ppid int, state string) {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, ""
	}
	// The name in parentheses may hold anything.
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0, ""
	}
	ppid, _ = strconv.Atoi(fields[1])
	return ppid, fields[0]
}

// lookPath finds a program in the PATH of the command.
func lookPath(name string, env []string) (string, error) {
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if st, err := os.Stat(full); err == nil && filepath.IsAbs(dir) && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s: command not found in PATH", name)
}
