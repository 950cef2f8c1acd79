package namespace

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/supervisor"
)

// child is one exec: its main process, and the control group leaf that holds all its descendants.
type child struct {
	s    *spawner
	id   int
	leaf string
	// ooms is how many processes the kernel had killed for memory when the child started; alone says that no other child ran then.
	ooms  int64
	alone bool

	once   sync.Once
	ended  chan struct{}
	status supervisor.Status
}

func (c *child) end(status supervisor.Status) {
	c.once.Do(func() {
		c.status = status
		close(c.ended)
	})
}

// Wait implements [supervisor.Child].
func (c *child) Wait() supervisor.Status {
	<-c.ended
	return c.status
}

// Signal implements [supervisor.Child]. Init sends it: it knows the process group, and pids cannot be mistaken inside.
func (c *child) Signal(signal int) error {
	_, err := c.s.order(order{ID: c.id, Op: opSignal, Signal: signal})
	return err
}

// Kill implements [supervisor.Child].
func (c *child) Kill() { kill(c.leaf) }

// Finish implements [supervisor.Child].
func (c *child) Finish() supervisor.Usage {
	c.s.mu.Lock()
	c.s.running--
	c.s.mu.Unlock()
	u := supervisor.Usage{
		CPU:        time.Duration(field(filepath.Join(c.leaf, "cpu.stat"), "usage_usec")) * time.Microsecond,
		LeftBehind: populated(c.leaf),
	}
	if u.LeftBehind {
		kill(c.leaf)
	}
	if c.s.group.oomKills() > c.ooms {
		killed := c.status.Signal == int(unix.SIGKILL) || c.status.Code == 128+int(unix.SIGKILL)
		u.OOM = killed || c.alone
	}
	if os.Remove(c.leaf) != nil {
		go removeLeaf(c.leaf)
	}
	return u
}

// populated says whether a group holds a process.
func populated(leaf string) bool {
	text, err := os.ReadFile(filepath.Join(leaf, "cgroup.procs"))
	return err == nil && strings.TrimSpace(string(text)) != ""
}
