package procs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// programs makes a folder of programs that are shell scripts.
func programs(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range Names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProgramsThatAreNotBuilt(t *testing.T) {
	t.Setenv(BinEnv, t.TempDir())
	if _, err := Bin(); !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("an empty folder: %v", err)
	}
	dir := programs(t, "exit 0")
	t.Setenv(BinEnv, dir)
	if got, err := Bin(); err != nil || got != dir {
		t.Errorf("a complete folder: %q, %v", got, err)
	}
}

// TestAProgramThatEndsIsReportedWithItsLog starts programs that refuse their settings: the error says what they said, at once.
func TestAProgramThatEndsIsReportedWithItsLog(t *testing.T) {
	started := time.Now()
	_, err := Start(t.Context(), Config{Bin: programs(t, "echo 'settings: no such store' >&2; exit 2"), Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "workspace ended (exit status 2)") || !strings.Contains(err.Error(), "settings: no such store") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(started); took > readyTimeout/2 {
		t.Errorf("it took %s to notice", took)
	}
}

func TestAddressesDiffer(t *testing.T) {
	c, err := New(Config{Bin: programs(t, "exit 0"), Dir: t.TempDir(), Addresses: map[string]string{Task: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop(t.Context())
	seen := map[string]string{c.HTTPAddress(): "http"}
	for _, name := range Names {
		address := c.Address(name)
		if other := seen[address]; other != "" {
			t.Errorf("%s and %s have the address %s", name, other, address)
		}
		seen[address] = name
	}
	if seen["127.0.0.1:1"] != Task {
		t.Error("the given address is not used")
	}
	if err := c.Kill(Task); err == nil {
		t.Error("killed what was never started")
	}
}

// TestEndSandboxes ends processes with the name of a supervisor below the directory, and no others.
func TestEndSandboxes(t *testing.T) {
	mine, other := t.TempDir(), t.TempDir()
	ended := map[string]chan error{}
	for _, dir := range []string{mine, other} {
		script := filepath.Join(dir, "box")
		if err := os.WriteFile(script, []byte("read line\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{supervisor, script}}
		in, err := cmd.StdinPipe() // it lives until this is closed
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		t.Cleanup(func() { in.Close(); <-done })
		ended[dir] = done
	}
	if err := EndSandboxes(mine); err != nil {
		t.Fatal(err)
	}
	err := <-ended[mine]
	ended[mine] <- err
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process below the directory ended with %v", err)
	}
	select {
	case err := <-ended[other]:
		ended[other] <- err
		t.Errorf("the other one ended too: %v", err)
	default:
	}
}
