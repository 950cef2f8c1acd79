package rpc

import (
	"context"
	"os"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Get implements SandboxService.
func (s *Server) Get(ctx context.Context, req *pb.GetRequest) (*pb.GetResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	l, err := s.m.Find(c.bucket, c.sandbox)
	if err != nil {
		return nil, err
	}
	resp := &pb.GetResponse{Sandbox: toSandbox(s.m.Status(l))}
	if l.Caps.Limits {
		tree, err := s.m.Files(ctx, l)
		if err != nil {
			return nil, err
		}
		defer tree.Close()
		u, err := tree.Usage(ctx)
		if err != nil {
			return nil, err
		}
		resp.UsedBytes, resp.UsedEntries = u.Bytes, u.Entries
	}
	return resp, nil
}

// List implements SandboxService.
func (s *Server) List(ctx context.Context, req *pb.ListRequest) (*pb.ListResponse, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	match := func(bucket string) bool { return bucket == c.bucket }
	if req.GetAllBuckets() {
		grant, _ := access.FromContext(ctx)
		if err := grant.Check("admin"); err != nil {
			return nil, err
		}
		prefix := identity.EncodeSegment(c.tenant) + "/"
		match = func(bucket string) bool { return strings.HasPrefix(bucket, prefix) }
	}
	size := pageSize(req.GetPageSize())
	kind := []string{"sandboxes", c.bucket, map[bool]string{true: "all"}[req.GetAllBuckets()]}
	after, err := fsops.PageAfter(req.GetPageToken(), kind...)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListResponse{}
	for _, st := range s.m.List(match) {
		if st.Spec.ID <= after && after != "" {
			continue
		}
		if len(resp.Sandboxes) == size {
			resp.NextPageToken = fsops.PageToken(resp.Sandboxes[size-1].GetSandboxId(), kind...)
			break
		}
		resp.Sandboxes = append(resp.Sandboxes, toSandbox(st))
	}
	return resp, nil
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return 100
	}
	return int(min(asked, 1000))
}

// Pause implements SandboxService.
func (s *Server) Pause(ctx context.Context, req *pb.PauseRequest) (*pb.PauseResponse, error) {
	l, release, err := s.existing(ctx, req.GetSandboxId(), req.GetFencingToken())
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.m.Pause(ctx, l); err != nil {
		return nil, err
	}
	return &pb.PauseResponse{Sandbox: toSandbox(s.m.Status(l))}, nil
}

// Resume implements SandboxService.
func (s *Server) Resume(ctx context.Context, req *pb.ResumeRequest) (*pb.ResumeResponse, error) {
	l, release, err := s.existing(ctx, req.GetSandboxId(), req.GetFencingToken())
	if err != nil {
		return nil, err
	}
	defer release()
	if err := s.m.Resume(ctx, l); err != nil {
		return nil, err
	}
	return &pb.ResumeResponse{Sandbox: toSandbox(s.m.Status(l))}, nil
}

// Destroy implements SandboxService.
func (s *Server) Destroy(ctx context.Context, req *pb.DestroyRequest) (*pb.DestroyResponse, error) {
	c, err := who(ctx, req.GetSandboxId())
	if err != nil {
		return nil, err
	}
	saved, err := s.m.Destroy(ctx, c.bucket, c.sandbox, req.GetFencingToken(), req.GetSave(), req.GetForce())
	if err != nil {
		return nil, err
	}
	resp := &pb.DestroyResponse{}
	if saved != nil {
		resp.Snapshot = toSnapshot(*saved, saved.ID)
	}
	return resp, nil
}

// Snapshot implements SandboxService.
func (s *Server) Snapshot(ctx context.Context, req *pb.SnapshotRequest) (*pb.SnapshotResponse, error) {
	l, release, err := s.existing(ctx, req.GetSandboxId(), req.GetFencingToken())
	if err != nil {
		return nil, err
	}
	defer release()
	m, frozen, err := s.m.Save(ctx, l, req.GetLabel(), req.GetPin())
	if err != nil {
		return nil, err
	}
	return &pb.SnapshotResponse{Snapshot: toSnapshot(m, m.ID), FrozenTime: durationpb.New(frozen)}, nil
}

// ListSnapshots implements SandboxService.
func (s *Server) ListSnapshots(ctx context.Context, req *pb.ListSnapshotsRequest) (*pb.ListSnapshotsResponse, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	list, current, err := s.m.Snapshots(ctx, c.bucket)
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize())
	after, err := fsops.PageAfter(req.GetPageToken(), "snapshots", c.bucket)
	if err != nil {
		return nil, err
	}
	resp := &pb.ListSnapshotsResponse{}
	begin := after == ""
	for _, m := range list {
		if !begin {
			begin = m.ID == after
			continue
		}
		if len(resp.Snapshots) == size {
			resp.NextPageToken = fsops.PageToken(resp.Snapshots[size-1].GetSnapshotId(), "snapshots", c.bucket)
			break
		}
		resp.Snapshots = append(resp.Snapshots, toSnapshot(m, current))
	}
	return resp, nil
}

// DeleteSnapshot implements SandboxService.
func (s *Server) DeleteSnapshot(ctx context.Context, req *pb.DeleteSnapshotRequest) (*pb.DeleteSnapshotResponse, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	return &pb.DeleteSnapshotResponse{}, s.m.DeleteSnapshot(ctx, c.bucket, req.GetSnapshotId(), req.GetForce())
}

// Restore implements SandboxService.
func (s *Server) Restore(ctx context.Context, req *pb.RestoreRequest) (*pb.RestoreResponse, error) {
	c, err := who(ctx, "")
	if err != nil {
		return nil, err
	}
	m, err := s.m.Restore(ctx, c.bucket, req.GetSnapshotId(), req.GetForce())
	if err != nil {
		return nil, err
	}
	return &pb.RestoreResponse{Snapshot: toSnapshot(m, m.ID)}, nil
}

// Fork implements SandboxService.
func (s *Server) Fork(context.Context, *pb.ForkRequest) (*pb.ForkResponse, error) {
	return nil, sandbox.Unimplemented("Fork", "download the files that the other bucket needs and upload them there")
}

// Probe implements SandboxService.
func (s *Server) Probe(ctx context.Context, _ *pb.ProbeRequest) (*pb.ProbeResponse, error) {
	resp := &pb.ProbeResponse{DefaultDriver: s.m.DefaultDriver(ctx)}
	live, most := s.m.Count()
	resp.LiveSandboxes, resp.MaxSandboxes = int32(live), int32(most)
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		resp.Kernel = strings.TrimSpace(string(text))
	}
	for _, d := range s.m.Drivers() {
		caps := d.Capabilities()
		out := &pb.DriverProbe{
			Driver: d.Name(), Available: true, Isolation: caps.Isolation, Limits: caps.Limits, Snapshots: caps.Snapshots, Projection: caps.Projection,
		}
		for _, f := range d.Probe(ctx) {
			pf := &pb.Feature{Name: f.Name, Available: f.OK, Required: f.Required, Detail: f.Detail}
			if !f.OK {
				pf.Fix = f.Fix
				out.Available = out.Available && !f.Required
			}
			out.Features = append(out.Features, pf)
		}
		resp.Drivers = append(resp.Drivers, out)
	}
	return resp, nil
}
