package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// frozenFor is how long a call may take while the server is frozen.
const frozenFor = 300 * time.Millisecond

// TestFrozenPostgres stops the server's processes in the middle: calls end with a typed error when their time is over, and when the server goes on everything works,
// with nothing half done and each change done once.
func TestFrozenPostgres(t *testing.T) {
	if os.Getenv(testkit.PostgresEnv) != "" {
		t.Skip("the server is not this test's to freeze")
	}
	url := testkit.Postgres(t)
	store := opened(postgres.Open(t.Context(), postgres.Config{DSN: url, History: files.DefaultHistory()}, time.Now))(t)
	for n, m := range mutations {
		m.begin(t, store)
		call := m.effect(n)
		thaw := freeze(t, url)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), frozenFor)
		err := m.change(ctx, store, call)
		_, _, readErr := viewOf(store, ana).ReadAll(ctx, fsops.PathOf("f"), 1<<20)
		cancel()
		took := time.Since(started)
		thaw()
		for what, err := range map[string]error{"change": err, "read": readErr} {
			if !errors.Is(err, errdefs.ErrDeadlineExceeded) && !errors.Is(err, errdefs.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, %s: %v", m.name, what, err)
			}
		}
		if took > frozenFor+2*time.Second {
			t.Errorf("%s: the call ended %s after its deadline", m.name, took-frozenFor)
		}
		answers(t, store)
		m.outcome(t, store)
		if err := m.change(t.Context(), store, call); err != nil {
			t.Errorf("%s, repeat: %v", m.name, err)
		}
		if !m.outcome(t, store) {
			t.Errorf("%s: the repeat is acknowledged and not there", m.name)
		}
	}
}

// freeze stops every process of the test's own server, until thaw is called.
func freeze(t *testing.T, url string) (thaw func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	err = conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir)
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	// The postmaster first, so that no child is born while they are counted.
	pids := []int{postmaster}
	signal := func(pid int, s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("signal %d to %d: %v", s, pid, err)
		}
	}
	signal(postmaster, syscall.SIGSTOP)
	children, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range children {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (name) state parent …; the name may hold spaces.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && fields[1] == first {
			pids = append(pids, pid)
			signal(pid, syscall.SIGSTOP)
		}
	}
	thawed := false
	thaw = func() {
		if !thawed {
			thawed = true
			for _, pid := range pids {
				signal(pid, syscall.SIGCONT)
			}
		}
	}
	t.Cleanup(thaw)
	return thaw
}
