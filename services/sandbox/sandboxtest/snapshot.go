package sandboxtest

import (
	"fmt"
	"testing"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// fingerprint describes a whole workspace: names, kinds, modes, links and contents.
const fingerprint = `find . -mindepth 1 -printf '%P %y %m %l\n' | LC_ALL=C sort | sha256sum; find . -type f -perm -u+r -print0 | LC_ALL=C sort -z | xargs -0r sha256sum | sha256sum`

var snapshotCases = []Case{
	{"three cycles of snapshot and new sandbox lose nothing", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		e.out(tb, ctx, `mkdir -p d/e empty; echo a > d/e/f; chmod 755 d/e/f; ln -s ../d/e/f d/link; ln -s /etc/passwd out; mkfifo pipe
			printf x > "$(printf 'a\nb')"; printf x > "$(printf '\377\376')"; printf x > -rf; printf x > 長い; : > none; echo s > secret; chmod 000 secret; mkdir ro; echo y > ro/f; chmod 555 ro; echo 0 > old0`)
		for i := 1; i <= 3; i++ {
			e.out(tb, ctx, fmt.Sprintf("echo %d > f%d; echo %d >> log; rm old%d; echo %d > old%d", i, i, i, i-1, i, i))
			e.out(tb, ctx, "rm -f pipe")
			before := e.out(tb, ctx, fingerprint)
			saved, err := e.Sandbox.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-", Save: true})
			if err != nil {
				tb.Fatal(err)
			}
			resp := e.run(tb, ctx, fingerprint)
			want(tb, "tree", resp.GetStdout().GetText(), before)
			want(tb, "generation", resp.GetStarted().GetGeneration(), int64(i+1))
			got, err := e.Sandbox.Get(ctx, &pb.GetRequest{SandboxId: "-"})
			if err != nil || got.GetSandbox().GetRestoredSnapshotId() != saved.GetSnapshot().GetSnapshotId() {
				tb.Errorf("Get: %v %v", got, err)
			}
		}
		want(tb, "unreadable file", e.out(tb, ctx, "chmod 600 secret; cat secret"), "s\n")
		// Automatic ones may lie in between.
		var all []*pb.SnapshotInfo
		asked, token := 0, ""
		for len(all) == 0 || token != "" {
			list, err := e.Sandbox.ListSnapshots(ctx, &pb.ListSnapshotsRequest{PageSize: 2, PageToken: token})
			if err != nil || len(list.GetSnapshots()) == 0 || len(list.GetSnapshots()) > 2 {
				tb.Fatalf("ListSnapshots: %v %v", list, err)
			}
			all, token = append(all, list.GetSnapshots()...), list.GetNextPageToken()
		}
		for i, s := range all {
			want(tb, "current", s.GetCurrent(), i == 0)
			if i > 0 {
				want(tb, "parent", all[i-1].GetParentId(), s.GetSnapshotId())
			}
			if !s.GetAutomatic() {
				asked++
			}
		}
		want(tb, "asked for", asked, 3)
	}},
	{"restore goes back, and voids what was done since", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		early, late := withEffect(ctx, "early"), withEffect(ctx, "late")
		e.out(tb, early, "echo 1 > f")
		snap, err := e.Sandbox.Snapshot(ctx, &pb.SnapshotRequest{SandboxId: "-", Label: "first", Pin: true})
		if err != nil {
			tb.Fatal(err)
		}
		e.out(tb, late, "echo 2 > f; echo 2 > g")
		lease, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{})
		if err != nil {
			tb.Fatal(err)
		}
		id := snap.GetSnapshot().GetSnapshotId()
		_, err = e.Sandbox.Restore(ctx, &pb.RestoreRequest{SnapshotId: id})
		refused(tb, "restore under a holder", err, errdefs.ErrAborted, "SANDBOX_BUSY")
		if _, err := e.Sandbox.Restore(ctx, &pb.RestoreRequest{SnapshotId: id, Force: true}); err != nil {
			tb.Fatal(err)
		}
		want(tb, "files", e.out(tb, ctx, "cat f; ls"), "1\nf\n")
		_, err = e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true"), FencingToken: lease.GetLease().GetFencingToken()})
		refused(tb, "the old holder", err, errdefs.ErrAborted, "FENCED")
		again, err := e.Sandbox.RunCommand(early, &pb.RunCommandRequest{Command: script("echo 1 > f")})
		if err != nil || !again.GetStarted().GetRepeated() {
			tb.Errorf("an effect that the snapshot covers: %v %v", again, err)
		}
		_, err = e.Sandbox.RunCommand(late, &pb.RunCommandRequest{Command: script("echo 2 > f; echo 2 > g")})
		refused(tb, "an effect that is void", err, errdefs.ErrFailedPrecondition, "EXEC_LOST")
		rec, err := e.Sandbox.GetExecRecord(ctx, &pb.GetExecRecordRequest{SandboxId: "-", Effect: effectOf(late)})
		if err != nil || !rec.GetVoided() {
			tb.Errorf("its record: %v %v", rec, err)
		}
		_, err = e.Sandbox.DeleteSnapshot(ctx, &pb.DeleteSnapshotRequest{SnapshotId: id})
		refused(tb, "deleting the current one", err, errdefs.ErrFailedPrecondition, "SNAPSHOT_IN_USE")
		for range 2 {
			if _, err := e.Sandbox.DeleteSnapshot(ctx, &pb.DeleteSnapshotRequest{SnapshotId: id, Force: true}); err != nil {
				tb.Errorf("with force: %v", err)
			}
		}
		_, err = e.Sandbox.Restore(ctx, &pb.RestoreRequest{SnapshotId: id, Force: true})
		refused(tb, "restoring what was deleted", err, errdefs.ErrNotFound, "SNAPSHOT_NOT_FOUND")
	}},
	{"a snapshot under a writer is of one moment", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		if _, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Script: []byte("i=0; while :; do i=$((i+1)); echo $i > a; echo $i > b; done"), Background: true}}); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "writing", func() bool { return size(tb, e, ctx, "b") > 0 })
		for range 5 {
			if _, err := e.Sandbox.Snapshot(ctx, &pb.SnapshotRequest{SandboxId: "-"}); err != nil {
				tb.Fatal(err)
			}
		}
		saved, err := e.Sandbox.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-", Save: true, Force: true})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "entries", saved.GetSnapshot().GetEntries(), 2)
		// The writer is stopped between any two of its steps, so a is at b, or one ahead, or one of them is being written and empty.
		got := e.out(tb, ctx, `a=$(cat a); b=$(cat b); test -z "$a" -o -z "$b" || test $((a-b)) -ge 0 -a $((a-b)) -le 1; echo $?`)
		want(tb, "consistent", got, "0\n")
	}},
}
