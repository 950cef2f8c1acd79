package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// controllers are those that a sandbox needs, under their names in both versions.
var controllers = []string{"memory", "pids", "cpu"}

// group is the control groups of one sandbox: the version 2 group with a leaf for init and one for each exec, and one group in each version 1 tree.
type group struct {
	h  hierarchy
	id string
	// owner is the uid that may move processes between the leaves. Negative: unchanged.
	owner int
}

func (g group) unified() string { return filepath.Join(g.h.Unified, g.id) }
func (g group) execs() string   { return filepath.Join(g.unified(), "x") }
func (g group) v1(c string) string {
	return filepath.Join(g.h.V1[c], g.id)
}

// create makes the groups and sets the limits.
func (g group) create(l sandbox.Limits) error {
	if err := g.h.prepare(); err != nil {
		return err
	}
	dirs := []string{g.unified(), filepath.Join(g.unified(), "init"), g.execs()}
	for c := range g.h.V1 {
		dirs = append(dirs, g.v1(c))
	}
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	for _, d := range dirs[:3] {
		if err := g.give(d); err != nil {
			return err
		}
	}
	quota := l.CPUMilli * 100 // microseconds in a period of 100 ms
	if len(g.h.V1) == 0 {
		return errors.Join(
			write(g.unified(), "memory.max", l.MemoryBytes), writeIf(g.unified(), "memory.swap.max", 0),
			write(g.unified(), "pids.max", l.Processes), write(g.unified(), "cpu.max", fmt.Sprintf("%d 100000", quota)))
	}
	return errors.Join(
		write(g.v1("memory"), "memory.limit_in_bytes", l.MemoryBytes), writeIf(g.v1("memory"), "memory.memsw.limit_in_bytes", l.MemoryBytes),
		write(g.v1("pids"), "pids.max", l.Processes),
		write(g.v1("cpu"), "cpu.cfs_period_us", 100_000), write(g.v1("cpu"), "cpu.cfs_quota_us", quota))
}

// give lets the owner put processes into a group.
func (g group) give(dir string) error {
	if g.owner < 0 {
		return nil
	}
	return errors.Join(os.Chown(dir, g.owner, g.owner), os.Chown(filepath.Join(dir, "cgroup.procs"), g.owner, g.owner))
}

// join moves a process into the version 1 groups. Its place in the version 2 tree is given at clone.
func (g group) join(pid int) error {
	for c := range g.h.V1 {
		if err := write(g.v1(c), "cgroup.procs", pid); err != nil {
			return err
		}
	}
	return nil
}

// leaf makes the group of one exec.
func (g group) leaf(id string) (string, error) {
	dir := filepath.Join(g.execs(), id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	return dir, g.give(dir)
}

// freeze stops or thaws all execs, and waits until it is so.
func (g group) freeze(on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := write(g.execs(), "cgroup.freeze", value); err != nil {
		return err
	}
	return poll(5*time.Second, func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(g.execs(), "cgroup.events"))
		return strings.Contains(string(text), "frozen "+value), err
	})
}

// oomKills counts the processes that the kernel killed for memory.
func (g group) oomKills() int64 {
	if len(g.h.V1) == 0 {
		return field(filepath.Join(g.unified(), "memory.events"), "oom_kill")
	}
	return field(filepath.Join(g.v1("memory"), "memory.oom_control"), "oom_kill")
}

// destroy kills everything and removes the groups.
func (g group) destroy() error {
	// Frozen processes die as well, but thawed ones do it sooner.
	_ = write(g.execs(), "cgroup.freeze", "0")
	if err := write(g.unified(), "cgroup.kill", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return poll(10*time.Second, func() (bool, error) {
		leaves, _ := os.ReadDir(g.execs())
		for _, l := range leaves {
			if l.IsDir() {
				_ = os.Remove(filepath.Join(g.execs(), l.Name()))
			}
		}
		dirs := []string{g.execs(), filepath.Join(g.unified(), "init"), g.unified()}
		for c := range g.h.V1 {
			dirs = append(dirs, g.v1(c))
		}
		done := true
		for _, d := range dirs {
			if err := os.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				done = false
			}
		}
		return done, nil
	})
}

// kill kills every process of a leaf, those in other sessions included.
func kill(leaf string) { _ = write(leaf, "cgroup.kill", "1") }

// removeLeaf removes a killed leaf as soon as the kernel lets go of its processes.
func removeLeaf(leaf string) {
	_ = poll(10*time.Second, func() (bool, error) {
		err := os.Remove(leaf)
		return err == nil || errors.Is(err, fs.ErrNotExist), nil
	})
}

// field reads one "name value" line.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == name {
			n, _ := strconv.ParseInt(v, 10, 64)
			return n
		}
	}
	return 0
}

func write(dir, name string, value any) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprint(f, value)
	return err
}

// writeIf ignores files that this kernel does not have: swap accounting is an option.
func writeIf(dir, name string, value any) error {
	err := write(dir, name, value)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP) {
		return nil
	}
	return err
}

// poll asks until the answer is yes. The kernel has no way to wait for these.
func poll(limit time.Duration, done func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	for pause := 50 * time.Microsecond; ; pause = min(pause*2, 10*time.Millisecond) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the control group did not settle in time")
		}
		time.Sleep(pause)
	}
}
