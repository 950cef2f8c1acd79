package sandboxtest

import (
	"context"
	"strings"
	"testing"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// CaseBucketsApart is the name of the case that a service which ignores the bucket fails.
const CaseBucketsApart = "one user's sandbox does not exist for another"

var isolationCases = []Case{
	{CaseBucketsApart, func(tb testing.TB, e *Env) {
		ana, ben := e.As("ana"), e.As("ben")
		resp := e.run(tb, ana, "echo badge-4471 > secret; echo badge-4471 > $HOME/secret; echo badge-4471")
		id, exec := resp.GetStarted().GetSandboxId(), resp.GetStarted().GetExecId()
		snap, err := e.Sandbox.Snapshot(ana, &pb.SnapshotRequest{SandboxId: id})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "what ben finds", strings.TrimSpace(e.out(tb, ben, "grep -rl badge-4471 /workspace $HOME /tmp /dev/shm 2>/dev/null | wc -l")), "0")
		if f, err := e.Files.Stat(ben, &fspb.StatRequest{Path: "secret"}); err == nil {
			tb.Errorf("ben sees ana's file: %v", f)
		}
		named, _ := identity.FromContext(ben)
		named.Sandbox = id
		through := identity.NewContext(context.Background(), named)
		for name, call := range map[string]func() error{
			"Get": func() error { _, err := e.Sandbox.Get(ben, &pb.GetRequest{SandboxId: id}); return err },
			"RunCommand": func() error {
				_, err := e.Sandbox.RunCommand(ben, &pb.RunCommandRequest{SandboxId: id, Command: script("cat secret")})
				return err
			},
			"RunCommand by metadata": func() error {
				_, err := e.Sandbox.RunCommand(through, &pb.RunCommandRequest{Command: script("cat secret")})
				return err
			},
			"Read by metadata": func() error { _, err := e.Files.Read(through, &fspb.ReadRequest{Path: "secret"}); return err },
			"ListProcesses": func() error {
				_, err := e.Sandbox.ListProcesses(ben, &pb.ListProcessesRequest{SandboxId: id})
				return err
			},
			"Destroy": func() error {
				_, err := e.Sandbox.Destroy(ben, &pb.DestroyRequest{SandboxId: id, Force: true})
				return err
			},
			"Snapshot": func() error { _, err := e.Sandbox.Snapshot(ben, &pb.SnapshotRequest{SandboxId: id}); return err },
			"Pause":    func() error { _, err := e.Sandbox.Pause(ben, &pb.PauseRequest{SandboxId: id}); return err },
		} {
			refused(tb, name, call(), errdefs.ErrNotFound, "SANDBOX_NOT_FOUND")
		}
		_, err = e.Sandbox.GetExecRecord(ben, &pb.GetExecRecordRequest{SandboxId: "-", ExecId: exec})
		refused(tb, "GetExecRecord", err, errdefs.ErrNotFound, "EXEC_NOT_FOUND")
		_, err = e.Sandbox.SignalProcess(ben, &pb.SignalProcessRequest{SandboxId: "-", ExecId: exec})
		refused(tb, "SignalProcess", err, errdefs.ErrNotFound, "EXEC_NOT_FOUND")
		_, err = e.Sandbox.Restore(ben, &pb.RestoreRequest{SnapshotId: snap.GetSnapshot().GetSnapshotId()})
		refused(tb, "Restore", err, errdefs.ErrNotFound, "SNAPSHOT_NOT_FOUND")
		list, err := e.Sandbox.ListSnapshots(ben, &pb.ListSnapshotsRequest{})
		if err != nil || len(list.GetSnapshots()) != 0 {
			tb.Errorf("ListSnapshots: %v %v", list, err)
		}
		own, err := e.Sandbox.List(ben, &pb.ListRequest{})
		if err != nil || len(own.GetSandboxes()) != 1 || own.GetSandboxes()[0].GetSandboxId() == id {
			tb.Errorf("List: %v %v", own, err)
		}
	}},
	{"odd ids have sandboxes of their own", func(tb testing.TB, e *Env) {
		ids := []string{"cid9+/Q==", "a:b", "a-b", "a/b", ".", "..", "../x", "Ana", "ana", "ana ", "アナ"}
		for _, id := range ids {
			e.out(tb, e.As(id), "test ! -e me && printf '%s' '"+strings.ReplaceAll(id, "'", "")+"' > me")
		}
		for _, id := range ids {
			want(tb, id, e.out(tb, e.As(id), "cat me"), id)
		}
	}},
	{"a missing user never widens the scope", func(tb testing.TB, e *Env) {
		one := identity.NewContext(context.Background(), identity.Identity{Agent: "suite", Session: e.prefix + "1"})
		two := identity.NewContext(context.Background(), identity.Identity{Agent: "suite", Session: e.prefix + "2"})
		e.users = append(e.users, one, two)
		e.out(tb, one, "echo x > mine")
		want(tb, "the other session", e.out(tb, two, "ls"), "")
		none := identity.NewContext(context.Background(), identity.Identity{Agent: "suite"})
		_, err := e.Sandbox.RunCommand(none, &pb.RunCommandRequest{Command: script("true")})
		refused(tb, "neither user nor session", err, errdefs.ErrInvalidArgument, "IDENTITY_REQUIRED")
	}},
}

func size(tb testing.TB, e *Env, ctx context.Context, path string) int64 {
	tb.Helper()
	resp, err := e.Files.Stat(ctx, &fspb.StatRequest{Path: path})
	if err != nil {
		return 0
	}
	return resp.GetInfo().GetSizeBytes()
}
