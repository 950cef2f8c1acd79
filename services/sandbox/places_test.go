package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/sandbox"
)

// in is a session of a user, with a bucket of its own.
func in(user, session string) context.Context {
	return identity.NewContext(context.Background(), identity.Identity{Agent: "a", User: user, Session: session, Scope: identity.ScopeSession})
}

func drain[T any](stream interface{ Recv() (*T, error) }, err error) error {
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestReadingNothingStartsNoSandbox(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	conn := inMemory(t, cfg, sandbox.Deps{})
	files := fspb.NewFilesystemServiceClient(conn)
	for i := range 20 {
		ctx := in("ana", fmt.Sprint(i))
		for name, call := range map[string]struct {
			reason string
			call   func() error
		}{
			"Stat":         {"PATH_NOT_FOUND", func() error { _, err := files.Stat(ctx, &fspb.StatRequest{Path: "a/b"}); return err }},
			"Stat unicode": {"PATH_NOT_FOUND", func() error { _, err := files.Stat(ctx, &fspb.StatRequest{Path: "長/b"}); return err }},
			"Stat root":    {"", func() error { _, err := files.Stat(ctx, &fspb.StatRequest{}); return err }},
			"Read":         {"PATH_NOT_FOUND", func() error { _, err := files.Read(ctx, &fspb.ReadRequest{Path: "a"}); return err }},
			"Download":     {"PATH_NOT_FOUND", func() error { return drain(files.Download(ctx, &fspb.DownloadRequest{Path: "a"})) }},
			"List":         {"", func() error { _, err := files.List(ctx, &fspb.ListRequest{Recursive: true}); return err }},
			"List below":   {"PATH_NOT_FOUND", func() error { _, err := files.List(ctx, &fspb.ListRequest{Path: "d"}); return err }},
			"Glob":         {"", func() error { _, err := files.Glob(ctx, &fspb.GlobRequest{Pattern: "**"}); return err }},
			"Grep":         {"", func() error { return drain(files.Grep(ctx, &fspb.GrepRequest{Pattern: "x"})) }},
			"GetUsage":     {"", func() error { _, err := files.GetUsage(ctx, &fspb.GetUsageRequest{}); return err }},
		} {
			if err := call.call(); errdefs.ReasonOf(err) != call.reason || (err == nil) != (call.reason == "") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cfg.Dir, "live", "*", "*")); len(left) != 0 {
		t.Errorf("started: %v", left)
	}
	// What is in a snapshot is read.
	ctx := in("ana", "0")
	c := pb.NewSandboxServiceClient(conn)
	output(t, c, ctx, "echo kept > f")
	if _, err := c.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-", Save: true}); err != nil {
		t.Fatal(err)
	}
	if r, err := files.Read(ctx, &fspb.ReadRequest{Path: "f"}); err != nil || r.GetText() != "kept\n" {
		t.Errorf("from a snapshot: %v %v", r, err)
	}
	_, _ = c.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-"})
}

func TestUsersHaveABoundAndTheirOwnIdleSandboxesMakeRoom(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxPerUser = 2
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	ben, ana := in("ben", "1"), []context.Context{in("ana", "1"), in("ana", "2"), in("ana", "3")}
	t.Cleanup(func() {
		for _, ctx := range append(ana, ben) {
			_, _ = c.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-", Force: true})
		}
	})
	output(t, c, ben, "true")
	var first *pb.Lease
	for _, ctx := range ana[:2] {
		resp, err := c.Acquire(ctx, &pb.AcquireRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = resp.GetLease()
		}
	}
	_, err := c.Acquire(ana[2], &pb.AcquireRequest{})
	var e *errdefs.Error
	if !errors.As(err, &e) || !errors.Is(err, errdefs.ErrResourceExhausted) || e.Reason != "LIMIT_REACHED" || e.Meta["limit"] != "user" || e.Meta["max"] != "2" || e.RetryAfter <= 0 {
		t.Errorf("the third: %v", err)
	}
	if _, err := c.Release(ana[0], &pb.ReleaseRequest{SandboxId: "-", LeaseId: first.GetLeaseId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(ana[2], &pb.AcquireRequest{}); err != nil {
		t.Errorf("the third when one is idle: %v", err)
	}
	if _, err := c.Get(ana[0], &pb.GetRequest{SandboxId: "-"}); errdefs.ReasonOf(err) != "SANDBOX_NOT_FOUND" {
		t.Errorf("the idle one: %v", err)
	}
	if _, err := c.Get(ben, &pb.GetRequest{SandboxId: "-"}); err != nil {
		t.Errorf("another user's, which has been idle for longer: %v", err)
	}
}

func TestCommandThatWasJustLeftInTheBackgroundMakesNoRoom(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxSandboxes, cfg.Tick = 1, time.Hour
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	bg := sh("sleep 300")
	bg.Command.Background = true
	if _, err := c.RunCommand(as("ana"), bg); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RunCommand(as("ben"), sh("true")); errdefs.ReasonOf(err) != "LIMIT_REACHED" {
		t.Errorf("another user's: %v", err)
	}
	if live(t, c, "ana") != 1 {
		t.Error("a sandbox with a running command was taken down")
	}
}

func TestMachineIsSharedByTenantsByDefault(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxSandboxes = 2
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	ana, ben := in("ana", "1"), in("ben", "1")
	t.Cleanup(func() { _, _ = c.Destroy(ana, &pb.DestroyRequest{SandboxId: "-", Force: true}) })
	if _, err := c.Acquire(ana, &pb.AcquireRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(ben, &pb.AcquireRequest{}); errdefs.ReasonOf(err) != "LIMIT_REACHED" {
		t.Errorf("half of the places are taken by one tenant: %v", err)
	}
}

func TestNoRequestGetsMoreMemoryThanTheMost(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxMemoryBytes, cfg.MemoryBytes = 64<<20, 32<<20
	c := pb.NewSandboxServiceClient(inMemory(t, cfg, sandbox.Deps{}))
	destroy(t, c, "ana")
	got, err := c.Acquire(as("ana"), &pb.AcquireRequest{Spec: &pb.SandboxSpec{Limits: &pb.Limits{MemoryBytes: 8 << 30}}})
	if err != nil || got.GetSandbox().GetLimits().GetMemoryBytes() != 64<<20 {
		t.Fatalf("Acquire: %v %v", got, err)
	}
	resp, err := c.RunCommand(as("ana"), &pb.RunCommandRequest{Command: &pb.Command{Argv: []string{"perl", "-e", "my $x = 'a' x (1<<28); print 'ALLOWED'"}}})
	if err != nil || !resp.GetExit().GetOom() || resp.GetStdout().GetText() != "" {
		t.Errorf("a command that wants more: %v %v", resp, err)
	}
}
