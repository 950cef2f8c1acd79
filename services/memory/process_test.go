package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory/memorytest"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memfs"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memthread"
)

// serveFiles serves a file service and a thread service on a loopback port and gives the address.
func serveFiles(t *testing.T) string {
	t.Helper()
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Address: "127.0.0.1:0"}, chain, nil)
	if err != nil {
		t.Fatal(err)
	}
	filesystemv1.RegisterFilesystemServiceServer(s.Registrar(), memfs.New(memfs.Faults{}))
	threadv1.RegisterThreadServiceServer(s.Registrar(), memthread.New())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s.Addr()
}

func dialAddress(tb testing.TB, address string) *grpc.ClientConn {
	tb.Helper()
	conn, err := client.Dial(address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// startProcess builds the command, starts it and waits until it answers. At the end of the test it must stop cleanly when asked to.
func startProcess(t *testing.T, files string) (address string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "memory")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/memory").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	address = fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	cmd := exec.Command(binary, "--address", address, "--filesystem", files, "--index-dir", t.TempDir())
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "GANTRY_CONFIG=")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			if err != nil {
				t.Errorf("the process ended with %v:\n%s", err, output.String())
			}
		case <-time.After(20 * time.Second):
			cmd.Process.Kill()
			t.Errorf("the process does not stop:\n%s", output.String())
		}
	})
	status := memoryv1.NewMemoryServiceClient(dialAddress(t, address))
	ctx := identity.NewContext(t.Context(), identity.Identity{Agent: "probe", User: "probe"})
	testkit.Eventually(t, 20*time.Second, func() error {
		select {
		case err := <-exited:
			exited <- err
			return errors.Join(errors.New("the process ended"), err)
		default:
		}
		_, err := status.GetStatus(ctx, &memoryv1.GetStatusRequest{})
		return err
	})
	return address
}

// TestSuiteInProcess runs the suite against the command in a process of its own.
func TestSuiteInProcess(t *testing.T) {
	files := serveFiles(t)
	address := startProcess(t, files)
	memorytest.Run(testkit.Wrap(t), func(t testkit.T) memorytest.Target {
		conn := dialAddress(t, files)
		return memorytest.Target{Memory: dialAddress(t, address), Files: conn, Threads: conn}
	})
}
