package namespace

import (
	"os"
	"path/filepath"
	"testing"
)

// Each case is what /proc/self holds on a machine of that kind.
func TestFindHierarchy(t *testing.T) {
	const v1 = `30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
`
	for _, c := range []struct {
		name, mounts, own string
		unified, memory   string
		ok                bool
	}{
		{"hybrid", v1 + "33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "4:memory:/svc/a\n3:cpu,cpuacct:/\n2:pids:/\n0::/\n",
			"/sys/fs/cgroup/unified/p", "/sys/fs/cgroup/memory/svc/a/p", true},
		{"version 2", "33 25 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/system.slice/gantry.service\n",
			"/sys/fs/cgroup/system.slice/gantry.service/p", "", true},
		{"version 2 in a container", "33 25 0:29 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/docker/abc\n", "/sys/fs/cgroup/p", "", true},
		{"version 1", v1, "4:memory:/\n", "", "/sys/fs/cgroup/memory/p", false},
		{"a controller is missing", "30 25 0:26 / /m rw - cgroup cgroup rw,memory\n33 25 0:29 / /u rw - cgroup2 cgroup2 rw\n", "0::/\n", "/u/p", "/m/p", false},
		{"none", "1 0 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"mountinfo": c.mounts, "cgroup": c.own} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			h, err := findHierarchy(dir, "p")
			if err != nil {
				t.Fatal(err)
			}
			if h.Unified != c.unified || h.V1["memory"] != c.memory || (h.check() == nil) != c.ok {
				t.Errorf("got %+v, check %v", h, h.check())
			}
		})
	}
}
