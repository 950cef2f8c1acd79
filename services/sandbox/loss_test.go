package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/sandbox"
)

// unsaving are settings with which nothing is saved on its own.
func unsaving(tb testing.TB) sandbox.Config {
	cfg := settings(tb)
	cfg.SaveAfter, cfg.SnapshotInterval = 0, 0
	return cfg
}

func withEffect(user, name string) context.Context {
	id, _ := identity.FromContext(as(user))
	id.Effect = effect.For(time.Now(), user, name)
	return identity.NewContext(context.Background(), id)
}

// lostState checks that an error tells about lost changes, and returns its details.
func lostState(t *testing.T, what string, err error) map[string]string {
	t.Helper()
	var e *errdefs.Error
	if !errors.As(err, &e) || e.Reason != "SANDBOX_STATE_LOST" || !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Fatalf("%s: %v", what, err)
	}
	if since, err := time.Parse(time.RFC3339, e.Meta["since"]); err != nil || time.Since(since) > time.Minute || !strings.Contains(e.Public(), "repeating") {
		t.Errorf("%s: since %v: %s", what, since, e.Public())
	}
	return e.Meta
}

// die kills ana's sandbox and waits until that is noticed.
func die(t *testing.T, cfg sandbox.Config, c pb.SandboxServiceClient) {
	t.Helper()
	killSupervisor(t, cfg)
	eventually(t, "noticed", func() bool { return live(t, c, "ana") == 0 })
}

func TestChangesAreSavedSoonAfterTheLastUse(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.SaveAfter = 50 * time.Millisecond
	conn := inMemory(t, cfg, sandbox.Deps{})
	c, files := pb.NewSandboxServiceClient(conn), fspb.NewFilesystemServiceClient(conn)
	destroy(t, c, "ana")
	clean := func() bool {
		got, err := c.Get(as("ana"), &pb.GetRequest{SandboxId: "-"})
		return err == nil && !got.GetSandbox().GetDirty()
	}
	output(t, c, as("ana"), "echo command > f")
	eventually(t, "saved after a command", clean)
	if _, err := files.Write(as("ana"), &fspb.WriteRequest{Path: "g", Content: []byte("file call\n")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "saved after a file call", clean)
	list, err := c.ListSnapshots(as("ana"), &pb.ListSnapshotsRequest{})
	if err != nil || len(list.GetSnapshots()) != 2 || !list.GetSnapshots()[0].GetAutomatic() {
		t.Errorf("snapshots: %v %v", list, err)
	}
	lease, err := c.Acquire(as("ana"), &pb.AcquireRequest{})
	if err != nil {
		t.Fatal(err)
	}
	output(t, c, as("ana"), "echo held > h")
	if _, err := c.Release(as("ana"), &pb.ReleaseRequest{SandboxId: "-", LeaseId: lease.GetLease().GetLeaseId()}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "saved after the last holder", clean)
	die(t, cfg, c)
	resp, err := c.RunCommand(as("ana"), sh("cat f g h"))
	if err != nil || resp.GetStdout().GetText() != "command\nfile call\nheld\n" || resp.GetStarted().GetLostChangesSinceTime() != nil {
		t.Errorf("after the end of a saved sandbox: %v %v", resp, err)
	}
}

func TestCommandsInTheBackgroundAreSavedAfterTheirEnd(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.SaveAfter, cfg.SnapshotInterval = 20*time.Millisecond, 0
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	bg := sh("while [ ! -e go ]; do sleep 0.01; done; echo x > late")
	bg.Command.Background = true
	if _, err := c.RunCommand(as("ana"), bg); err != nil {
		t.Fatal(err)
	}
	eventually(t, "saved while it runs", func() bool {
		list, err := c.ListSnapshots(as("ana"), &pb.ListSnapshotsRequest{})
		return err == nil && len(list.GetSnapshots()) > 0
	})
	if got, err := c.Get(as("ana"), &pb.GetRequest{SandboxId: "-"}); err != nil || !got.GetSandbox().GetDirty() {
		t.Errorf("a sandbox in which a command runs is saved for good: %v %v", got, err)
	}
	output(t, c, as("ana"), "touch go")
	eventually(t, "saved after its end", func() bool {
		got, err := c.Get(as("ana"), &pb.GetRequest{SandboxId: "-"})
		return err == nil && !got.GetSandbox().GetDirty()
	})
	die(t, cfg, c)
	if got := output(t, c, as("ana"), "cat late"); got != "x\n" {
		t.Errorf("late holds %q", got)
	}
}

func TestLostChangesAreToldOnceToCallsWithoutALease(t *testing.T) {
	needNamespace(t)
	for name, call := range map[string]func(pb.SandboxServiceClient, fspb.FilesystemServiceClient) error{
		"RunCommand": func(c pb.SandboxServiceClient, _ fspb.FilesystemServiceClient) error {
			_, err := c.RunCommand(as("ana"), sh("true"))
			return err
		},
		"Exec": func(c pb.SandboxServiceClient, _ fspb.FilesystemServiceClient) error {
			stream, err := c.Exec(as("ana"))
			if err != nil {
				return err
			}
			if err := stream.Send(&pb.ExecRequest{Part: &pb.ExecRequest_Start{Start: &pb.ExecStart{Command: &pb.Command{Argv: []string{"true"}}}}}); err != nil {
				return err
			}
			for {
				if ev, err := stream.Recv(); err != nil || ev.GetExit() != nil {
					return err
				}
			}
		},
		"Read": func(_ pb.SandboxServiceClient, f fspb.FilesystemServiceClient) error {
			_, err := f.Read(as("ana"), &fspb.ReadRequest{Path: "f"})
			return err
		},
		"Write": func(_ pb.SandboxServiceClient, f fspb.FilesystemServiceClient) error {
			_, err := f.Write(as("ana"), &fspb.WriteRequest{Path: "new"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := unsaving(t)
			conn := inMemory(t, cfg, sandbox.Deps{})
			c, files := pb.NewSandboxServiceClient(conn), fspb.NewFilesystemServiceClient(conn)
			destroy(t, c, "ana")
			output(t, c, as("ana"), "echo saved > f")
			snap, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"})
			if err != nil {
				t.Fatal(err)
			}
			output(t, c, as("ana"), "echo unsaved > g")
			die(t, cfg, c)
			meta := lostState(t, "the first call", call(c, files))
			if meta["restored_snapshot_id"] != snap.GetSnapshot().GetSnapshotId() || meta["snapshot_time"] == "" || meta["generation"] != "1" {
				t.Errorf("details: %v", meta)
			}
			if n := live(t, c, "ana"); n != 0 {
				t.Errorf("the refused call started %d sandboxes", n)
			}
			if err := call(c, files); err != nil {
				t.Errorf("repeated: %v", err)
			}
			resp, err := c.RunCommand(as("ana"), sh("cat f; test ! -e g && echo gone"))
			if err != nil || resp.GetStdout().GetText() != "saved\ngone\n" {
				t.Fatalf("afterwards: %v %v", resp, err)
			}
			if s := resp.GetStarted(); s.GetLostChangesSinceTime() == nil || s.GetRestoredSnapshotId() != snap.GetSnapshot().GetSnapshotId() {
				t.Errorf("started: %v", s)
			}
			// With the next snapshot nothing is missing any more.
			if _, err := c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-", Save: true}); err != nil {
				t.Fatal(err)
			}
			resp, err = c.RunCommand(as("ana"), sh("true"))
			if err != nil || resp.GetStarted().GetLostChangesSinceTime() != nil {
				t.Errorf("a later sandbox: %v %v", resp, err)
			}
		})
	}
}

func TestAcquireTellsWhatIsLostInItsAnswer(t *testing.T) {
	needNamespace(t)
	cfg := unsaving(t)
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	output(t, c, as("ana"), "echo unsaved > g")
	die(t, cfg, c)
	got, err := c.Acquire(as("ana"), &pb.AcquireRequest{})
	if err != nil || got.GetSandbox().GetLostChangesSinceTime() == nil || got.GetSandbox().GetRestoredSnapshotId() != "" {
		t.Fatalf("Acquire: %v %v", got, err)
	}
	held := sh("true")
	held.FencingToken = got.GetLease().GetFencingToken()
	if _, err := c.RunCommand(as("ana"), held); err != nil {
		t.Errorf("under the lease: %v", err)
	}
	_, err = c.RunCommand(as("ana"), sh("true"))
	lostState(t, "another's first call", err)
	output(t, c, as("ana"), "true")
}

func TestRepeatedEffectsAreAnsweredBeforeWhatIsLost(t *testing.T) {
	needNamespace(t)
	cfg := unsaving(t)
	conn := inMemory(t, cfg, sandbox.Deps{})
	c, files := pb.NewSandboxServiceClient(conn), fspb.NewFilesystemServiceClient(conn)
	destroy(t, c, "ana")
	savedEffect := withEffect("ana", "saved")
	output(t, c, savedEffect, "echo saved > f")
	if _, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"}); err != nil {
		t.Fatal(err)
	}
	lost, lostEffect := &fspb.WriteRequest{Path: "g", Content: []byte("x")}, withEffect("ana", "lost")
	if _, err := files.Write(lostEffect, lost); err != nil {
		t.Fatal(err)
	}
	die(t, cfg, c)
	if _, err := files.Write(lostEffect, lost); errdefs.ReasonOf(err) != "EXEC_LOST" {
		t.Errorf("a lost effect: %v", err)
	}
	if resp, err := c.RunCommand(savedEffect, sh("echo saved > f")); err != nil || !resp.GetStarted().GetRepeated() {
		t.Errorf("a saved effect: %v %v", resp, err)
	}
	_, err := c.RunCommand(withEffect("ana", "new"), sh("true"))
	lostState(t, "a new effect", err)
}

func TestLossIsRememberedWhenNothingIsLeftOfTheSandbox(t *testing.T) {
	needNamespace(t)
	cfg := unsaving(t)
	during := func(name string, f func(t *testing.T, c pb.SandboxServiceClient)) {
		t.Run(name, func(t *testing.T) { f(t, pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))) })
	}
	during("before the restart", func(t *testing.T, c pb.SandboxServiceClient) { output(t, c, as("ana"), "echo x > f") })
	killSupervisor(t, cfg)
	if err := os.RemoveAll(filepath.Join(cfg.Dir, "live")); err != nil {
		t.Fatal(err)
	}
	during("after it", func(t *testing.T, c pb.SandboxServiceClient) {
		_, err := c.RunCommand(as("ana"), sh("ls"))
		if meta := lostState(t, "the first call", err); meta["restored_snapshot_id"] != "" {
			t.Errorf("details: %v", meta)
		}
	})
	during("after one more", func(t *testing.T, c pb.SandboxServiceClient) {
		destroy(t, c, "ana")
		resp, err := c.RunCommand(as("ana"), sh("ls"))
		if err != nil || resp.GetStarted().GetLostChangesSinceTime() == nil {
			t.Errorf("repeated: %v %v", resp, err)
		}
	})
}

func TestWhatIsGivenUpOrUnchangedIsNoLoss(t *testing.T) {
	needNamespace(t)
	cfg := unsaving(t)
	conn := inMemory(t, cfg, sandbox.Deps{})
	c, files := pb.NewSandboxServiceClient(conn), fspb.NewFilesystemServiceClient(conn)
	destroy(t, c, "ana")
	output(t, c, as("ana"), "echo x > f")
	if _, err := c.Destroy(as("ana"), &pb.DestroyRequest{SandboxId: "-"}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, c, as("ana"), "ls"); got != "" {
		t.Errorf("after Destroy: %q", got)
	}
	snap, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"})
	if err != nil {
		t.Fatal(err)
	}
	output(t, c, as("ana"), "echo x > f")
	if _, err := c.Restore(as("ana"), &pb.RestoreRequest{SnapshotId: snap.GetSnapshot().GetSnapshotId()}); err != nil {
		t.Fatal(err)
	}
	// Only read, so there is nothing to lose.
	if _, err := files.List(as("ana"), &fspb.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	die(t, cfg, c)
	if got := output(t, c, as("ana"), "ls"); got != "" {
		t.Errorf("after Restore: %q", got)
	}
}
