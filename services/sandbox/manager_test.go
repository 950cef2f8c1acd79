package sandbox_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/sandboxtest"
)

func as(user string) context.Context {
	return identity.NewContext(context.Background(), identity.Identity{Agent: "a", User: user})
}

func sh(text string) *pb.RunCommandRequest {
	return &pb.RunCommandRequest{Command: &pb.Command{Script: []byte(text)}}
}

// output runs a script and returns what it printed.
func output(t *testing.T, c pb.SandboxServiceClient, ctx context.Context, text string) string {
	t.Helper()
	resp, err := c.RunCommand(ctx, sh(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return resp.GetStdout().GetText() + resp.GetStderr().GetText()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, 15*time.Second, func() error {
		if !ok() {
			return errors.New("not " + what)
		}
		return nil
	})
}

func destroy(t *testing.T, c pb.SandboxServiceClient, users ...string) {
	t.Cleanup(func() {
		for _, u := range users {
			_, _ = c.Destroy(as(u), &pb.DestroyRequest{SandboxId: "-", Force: true})
		}
	})
}

func TestIdleSandboxIsSavedAndReleased(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.IdleTimeout = 150 * time.Millisecond
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	output(t, c, as("ana"), "echo kept > f")
	eventually(t, "released", func() bool { return live(t, c, "ana") == 0 })
	if got := output(t, c, as("ana"), "cat f"); got != "kept\n" {
		t.Errorf("after the release: %q", got)
	}
	bg := sh("sleep 300")
	bg.Command.Background = true
	if _, err := c.RunCommand(as("ana"), bg); err != nil {
		t.Fatal(err)
	}
	// Others that are used later are released meanwhile, one after the other.
	for _, other := range []string{"ben", "cem"} {
		output(t, c, as(other), "true")
		eventually(t, "released", func() bool { return live(t, c, other) == 0 })
	}
	if list, err := c.List(as("ana"), &pb.ListRequest{}); err != nil || len(list.GetSandboxes()) != 1 {
		t.Errorf("a sandbox with a running command was released: %v %v", list, err)
	}
}

func TestUnusedSandboxesAreTakenDownWithTheServiceWhereAskedFor(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.ReleaseOnStop = true
	t.Run("until it stops", func(t *testing.T) {
		output(t, pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{})), as("ana"), "echo kept > f")
	})
	if left, err := filepath.Glob(filepath.Join(cfg.Dir, "live", "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("these went on: %v %v", left, err)
	}
	t.Run("with the next start", func(t *testing.T) {
		if got := output(t, pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{})), as("ana"), "cat f"); got != "kept\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

func TestFullMachineIsTypedAndIdleOnesMakeRoom(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxSandboxes, cfg.MaxPerTenant = 2, 2
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana", "ben", "cem", "dee")
	for _, u := range []string{"ana", "ben"} {
		if _, err := c.Acquire(as(u), &pb.AcquireRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.RunCommand(as("cem"), sh("true"))
	var e *errdefs.Error
	if !errors.As(err, &e) || !errors.Is(err, errdefs.ErrResourceExhausted) || e.Reason != "LIMIT_REACHED" || e.RetryAfter <= 0 || e.Meta["max"] != "2" {
		t.Fatalf("the third: %v %+v", err, e)
	}
	lease, err := c.Acquire(as("ana"), &pb.AcquireRequest{LeaseDuration: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	_ = lease
	// ana's first lease lives for a minute; a second one does not shorten it. Ending her sandbox makes room for a waiter.
	waited := make(chan error, 1)
	go func() {
		_, err := c.Acquire(as("dee"), &pb.AcquireRequest{Wait: durationpb.New(20 * time.Second)})
		waited <- err
	}()
	if _, err := c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the waiter: %v", err)
	}
}

func TestDeadSandboxIsReportedNotReplacedSilently(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	output(t, c, as("ana"), "echo saved > f")
	if _, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"}); err != nil {
		t.Fatal(err)
	}
	id, _ := identity.FromContext(as("ana"))
	id.Effect = effect.For(time.Now(), "lost")
	effectful := identity.NewContext(context.Background(), id)
	req := sh("echo running; sleep 300")
	req.Command.Background = true
	if _, err := c.RunCommand(effectful, req); err != nil {
		t.Fatal(err)
	}
	killSupervisor(t, cfg)
	eventually(t, "noticed", func() bool { return live(t, c, "ana") == 0 })
	if _, err := c.RunCommand(effectful, req); errdefs.ReasonOf(err) != "EXEC_LOST" {
		t.Errorf("the repeat of a lost command: %v", err)
	}
	rec, err := c.GetExecRecord(as("ana"), &pb.GetExecRecordRequest{SandboxId: "-", Effect: id.Effect})
	if err != nil || rec.GetRecord().GetExit().GetState() != pb.ExecState_EXEC_STATE_LOST || !rec.GetVoided() {
		t.Errorf("its record: %v %v", rec, err)
	}
	if _, err := c.RunCommand(as("ana"), sh("cat f")); errdefs.ReasonOf(err) != "SANDBOX_STATE_LOST" {
		t.Errorf("the first call afterwards: %v", err)
	}
	if got := output(t, c, as("ana"), "cat f"); got != "saved\n" {
		t.Errorf("the next sandbox: %q", got)
	}
}

func TestDamagedSnapshotIsAnErrorNeverABlankStart(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	output(t, c, as("ana"), "echo saved > f")
	if _, err := c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Save: true}); err != nil {
		t.Fatal(err)
	}
	blobs, _ := filepath.Glob(filepath.Join(cfg.Dir, "snapshots", "default", "user", "*", "*", "!blobs", "*"))
	if len(blobs) != 1 {
		t.Fatalf("blobs: %v", blobs)
	}
	good, err := os.ReadFile(blobs[0])
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	bad[len(bad)/2] ^= 1
	if err := os.WriteFile(blobs[0], bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RunCommand(as("ana"), sh("ls")); errdefs.ReasonOf(err) != "SNAPSHOT_DAMAGED" || !errors.Is(err, errdefs.ErrDataLoss) {
		t.Errorf("from a damaged snapshot: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(cfg.Dir, "live", "*", "s*"))
	if len(left) != 0 {
		t.Errorf("left after the failed start: %v", left)
	}
	if err := os.WriteFile(blobs[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := output(t, c, as("ana"), "cat f"); got != "saved\n" {
		t.Errorf("from the repaired one: %q", got)
	}
}

func TestOneServiceOwnsADirectory(t *testing.T) {
	cfg := settings(t)
	first, err := sandbox.New(t.Context(), cfg, sandbox.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.New(t.Context(), cfg, sandbox.Deps{}); errdefs.ReasonOf(err) != "STATE_IN_USE" {
		t.Errorf("the second: %v", err)
	}
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	second, err := sandbox.New(t.Context(), cfg, sandbox.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Stop(context.Background())
}

func TestProcessDriverRefusesUnlessConfigured(t *testing.T) {
	c := pb.NewSandboxServiceClient(inMemory(t, settings(t), sandbox.Deps{}))
	_, err := c.Acquire(as("ana"), &pb.AcquireRequest{Spec: &pb.SandboxSpec{Driver: "process"}})
	if errdefs.ReasonOf(err) != "DRIVER_NOT_CONFIGURED" {
		t.Errorf("Acquire: %v", err)
	}
	cfg := settings(t)
	cfg.ProcessEnabled, cfg.Driver = true, "process"
	root := t.TempDir()
	cfg.ProcessRoots = []string{root}
	c = pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	req := sh("pwd; echo x > made")
	req.Spec = &pb.SandboxSpec{HostDir: root}
	resp, err := c.RunCommand(as("ana"), req)
	if err != nil || resp.GetStdout().GetText() != root+"\n" {
		t.Errorf("in its directory: %v %v", resp, err)
	}
	if _, err := os.Stat(filepath.Join(root, "made")); err != nil {
		t.Error(err)
	}
	if _, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"}); !errors.Is(err, errdefs.ErrUnimplemented) {
		t.Errorf("Snapshot: %v", err)
	}
}

// oneUser is a connection that makes everybody the same user: a service that ignores the bucket.
type oneUser struct{ grpc.ClientConnInterface }

func merged(ctx context.Context) context.Context {
	id, _ := identity.FromContext(ctx)
	id.User = "everybody"
	return identity.NewContext(ctx, id)
}

func (o oneUser) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return o.ClientConnInterface.Invoke(merged(ctx), method, args, reply, opts...)
}

func (o oneUser) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return o.ClientConnInterface.NewStream(merged(ctx), desc, method, opts...)
}

func TestSuiteNoticesAServiceThatIgnoresTheBucket(t *testing.T) {
	needNamespace(t)
	conn := oneUser{inMemory(t, settings(t), sandbox.Deps{})}
	for _, c := range sandboxtest.Cases() {
		if c.Name != sandboxtest.CaseBucketsApart {
			continue
		}
		failures := testkit.Failures(func(tb testkit.T) { sandboxtest.RunCase(tb, c, sandboxtest.Target{Conn: conn}) })
		if len(failures) == 0 {
			t.Errorf("it passes %q", c.Name)
		}
	}
	_, _ = pb.NewSandboxServiceClient(conn).Destroy(as("x"), &pb.DestroyRequest{SandboxId: "-", Force: true})
}

// live counts the sandboxes of a user.
func live(t *testing.T, c pb.SandboxServiceClient, user string) int {
	t.Helper()
	list, err := c.List(as(user), &pb.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetSandboxes())
}

// killSupervisor kills the only supervisor that there is.
func killSupervisor(t *testing.T, cfg sandbox.Config) {
	t.Helper()
	pids, _ := filepath.Glob(filepath.Join(cfg.Dir, "live", "namespace", "*", "supervisor.pid"))
	if len(pids) != 1 {
		t.Fatalf("supervisors: %v", pids)
	}
	pid, err := os.ReadFile(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(n, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
