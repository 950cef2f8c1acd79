package namespace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const nobody = 65534

// TestUnprivileged runs the driver's suite as an ordinary user who was given a control group, as systemd's Delegate= does.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can delegate a control group")
	}
	h, err := findHierarchy("/proc/self", "gantry-delegated")
	if err != nil || h.check() != nil || len(h.V1) == 0 {
		t.Skip("delegation is tried on the hybrid hierarchy alone")
	}
	for _, dir := range h.parents() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, f := range append(files, dir) {
			_ = os.Chown(f, nobody, nobody)
		}
	}
	t.Cleanup(func() {
		for _, dir := range h.parents() {
			err := poll(5*time.Second, func() (bool, error) {
				below, _ := filepath.Glob(filepath.Join(dir, "*", "."))
				for _, d := range below {
					_ = os.Remove(filepath.Clean(d))
				}
				err := os.Remove(dir)
				return err == nil || errors.Is(err, os.ErrNotExist), nil
			})
			if err != nil {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
	home, err := os.MkdirTemp("/tmp", "gantry-unprivileged-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	// The shell moves itself into the delegated groups while it is still root.
	var script strings.Builder
	for _, dir := range h.parents() {
		script.WriteString("echo $$ > " + dir + "/cgroup.procs || exit 9\n")
	}
	script.WriteString("exec /proc/" + "self/fd/3 -as-nobody -test.run '^(TestDriver|TestAttacks)$' -test.timeout 200s\n")
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/bin/sh", "-c", script.String())
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=" + home, "HOME=" + home}
	cmd.Dir = home
	cmd.ExtraFiles = []*os.File{self}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// becomeNobody gives up all privileges for good.
func becomeNobody() error {
	return errors.Join(syscall.Setgroups(nil), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody))
}
