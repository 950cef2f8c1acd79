package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var liveStates = map[sandbox.LiveState]pb.SandboxState{
	sandbox.LiveRunning:  pb.SandboxState_SANDBOX_STATE_RUNNING,
	sandbox.LivePaused:   pb.SandboxState_SANDBOX_STATE_PAUSED,
	sandbox.LiveStopping: pb.SandboxState_SANDBOX_STATE_STOPPING,
	sandbox.LiveLost:     pb.SandboxState_SANDBOX_STATE_LOST,
}

func toSandbox(s sandbox.Status) *pb.Sandbox {
	l := s.Spec.Limits
	return &pb.Sandbox{
		SandboxId: s.Spec.ID, State: liveStates[s.State], Driver: s.Spec.Driver, Generation: s.Spec.Generation, Bucket: s.Spec.Bucket,
		RestoredSnapshotId: s.Restored, Holders: int32(s.Holders), RunningExecs: int32(s.Running),
		CreateTime: toTime(s.Spec.Created), LastUseTime: toTime(s.LastUse), IdleReleaseTime: toTime(s.ReleaseTime),
		ProjectionFingerprint: s.Projection, WorkspaceDir: s.Workspace, Dirty: s.Dirty,
		LostChangesSinceTime: toTime(s.Spec.LostSince),
		Limits: &pb.Limits{
			MemoryBytes: l.MemoryBytes, Processes: l.Processes, CpuMilli: l.CPUMilli, DiskBytes: l.DiskBytes, DiskEntries: l.DiskEntries,
			TempBytes: l.TempBytes, OpenFiles: l.OpenFiles, FileBytes: l.FileBytes,
		},
	}
}

func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toLease(l sandbox.Lease) *pb.Lease {
	return &pb.Lease{LeaseId: l.ID, FencingToken: l.Token, ExpireTime: toTime(l.Expires), Exclusive: l.Exclusive}
}

var execStates = map[sandbox.State]pb.ExecState{
	sandbox.StateRunning: pb.ExecState_EXEC_STATE_RUNNING,
	sandbox.StateExited:  pb.ExecState_EXEC_STATE_EXITED,
	sandbox.StateLost:    pb.ExecState_EXEC_STATE_LOST,
}

func toExit(x sandbox.Exit) *pb.ExecExit {
	return &pb.ExecExit{
		State: execStates[x.State], Code: int32(x.Code), Signal: int32(x.Signal), TimedOut: x.TimedOut, Oom: x.OOM, LeftBehind: x.LeftBehind,
		StartError: x.StartError, StartReason: x.StartReason, StdoutBytes: x.StdoutBytes, StderrBytes: x.StderrBytes,
		WallTime: durationpb.New(x.Wall), CpuTime: durationpb.New(x.CPU), MemoryPeakBytes: x.MemoryPeak,
	}
}

func toRecord(id string, r sandbox.Record) *pb.ExecRecord {
	return &pb.ExecRecord{
		ExecId: r.ID, SandboxId: id, Generation: r.Generation, Effect: r.Effect, Title: r.Title, Background: r.Background,
		StartTime: toTime(r.Start), EndTime: toTime(r.End), Exit: toExit(r.Exit),
	}
}

func toSnapshot(m sandbox.Manifest, current string) *pb.SnapshotInfo {
	return &pb.SnapshotInfo{
		SnapshotId: m.ID, Bucket: m.Bucket, ParentId: m.Parent, Generation: m.Generation, FencingToken: m.Token, CreateTime: toTime(m.Created),
		Entries: int64(len(m.Entries)), ContentBytes: m.ContentBytes(), StoredBytes: m.Archive.Size, Label: m.Label, Pinned: m.Pinned,
		Current: m.ID == current, Skipped: m.Skipped, Automatic: m.Automatic,
	}
}

func toProjection(r sandbox.ProjectionResult) *pb.ProjectionResult {
	return &pb.ProjectionResult{
		Fingerprint: r.Fingerprint, Deferred: r.Deferred, Files: int32(r.Files), Written: int32(r.Written), Removed: int32(r.Removed),
		FetchedBytes: r.FetchedBytes, Conflicts: r.Conflicts, Warnings: r.Warnings,
	}
}
