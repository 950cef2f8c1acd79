package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	workspacepb "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/services/sandbox"
)

// workspace is a workspace service with a few files.
type workspace struct {
	workspacepb.UnimplementedWorkspaceServiceServer
	files   atomic.Pointer[map[string]string]
	fetched atomic.Int64
}

func (w *workspace) set(files map[string]string) { w.files.Store(&files) }

func (w *workspace) GetManifest(context.Context, *workspacepb.GetManifestRequest) (*workspacepb.GetManifestResponse, error) {
	resp := &workspacepb.GetManifestResponse{}
	for path, content := range *w.files.Load() {
		mode := uint32(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		resp.Entries = append(resp.Entries, &workspacepb.ManifestEntry{Path: path, Sha256: hexSum(content), SizeBytes: int64(len(content)), Mode: mode})
		resp.Fingerprint += path + hexSum(content)[:8] + ";"
	}
	return resp, nil
}

func (w *workspace) FetchBlobs(req *workspacepb.FetchBlobsRequest, stream grpc.ServerStreamingServer[workspacepb.FetchBlobsResponse]) error {
	for _, e := range req.GetEntries() {
		w.fetched.Add(1)
		if err := stream.Send(&workspacepb.FetchBlobsResponse{Part: &workspacepb.FetchBlobsResponse_Header{Header: e}}); err != nil {
			return err
		}
		if err := stream.Send(&workspacepb.FetchBlobsResponse{Part: &workspacepb.FetchBlobsResponse_Chunk{Chunk: []byte((*w.files.Load())[e.GetPath()])}}); err != nil {
			return err
		}
	}
	return stream.Send(&workspacepb.FetchBlobsResponse{Part: &workspacepb.FetchBlobsResponse_End{End: &workspacepb.FetchBlobsEnd{}}})
}

func TestProjection(t *testing.T) {
	needNamespace(t)
	w := &workspace{}
	w.set(map[string]string{"AGENTS.md": "be kind", "skills/s/SKILL.md": "skill", "skills/s/run.sh": "#!/bin/sh\necho ran\n", "knowledge/a": "1"})
	network := inproc.New()
	grpcServer := grpc.NewServer()
	workspacepb.RegisterWorkspaceServiceServer(grpcServer, w)
	l, err := network.Listen("workspace")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = grpcServer.Serve(l) }()
	defer grpcServer.Stop()
	conn, err := network.Dial("workspace", insecureOption)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	both := inMemory(t, settings(t), sandbox.Deps{Workspace: conn})
	c, files := pb.NewSandboxServiceClient(both), fspb.NewFilesystemServiceClient(both)
	destroy(t, c, "ana", "ben")

	got, err := c.Acquire(as("ana"), &pb.AcquireRequest{Spec: &pb.SandboxSpec{Project: true}})
	if err != nil || got.GetProjection().GetWritten() != 4 {
		t.Fatalf("Acquire: %v %v", got, err)
	}
	if out := output(t, c, as("ana"), "cat AGENTS.md; skills/s/run.sh; stat -c %a skills/s/run.sh AGENTS.md; echo own > mine"); out != "be kindran\n555\n444\n" {
		t.Errorf("inside: %q", out)
	}
	for _, s := range []string{"echo x > AGENTS.md", "echo x > MEMORY.md", "rm -f AGENTS.md", "mv skills s2", "touch skills/new", "rm -rf knowledge/a", "chmod 777 AGENTS.md", "ln -sf /tmp/x AGENTS.md", "mkdir plans/x"} {
		resp, err := c.RunCommand(as("ana"), sh(s))
		if err != nil || resp.GetExit().GetCode() == 0 {
			t.Errorf("%q did not fail loudly: %v %v", s, resp, err)
		}
	}
	if _, err := files.Write(as("ana"), &fspb.WriteRequest{Path: "AGENTS.md", Content: []byte("x")}); errdefs.ReasonOf(err) != "READ_ONLY" {
		t.Errorf("a write by RPC: %v", err)
	}

	// While another lease holds the sandbox it keeps what it has.
	w.set(map[string]string{"AGENTS.md": "be kinder", "skills/s/SKILL.md": "skill", "skills/s/run.sh": "#!/bin/sh\necho ran\n", "mine": "theirs"})
	other, err := c.Acquire(as("ana"), &pb.AcquireRequest{})
	if err != nil {
		t.Fatal(err)
	}
	token := got.GetLease().GetFencingToken()
	res, err := c.Project(as("ana"), &pb.ProjectRequest{SandboxId: "-", FencingToken: token})
	if err != nil || !res.GetProjection().GetDeferred() || output(t, c, as("ana"), "cat AGENTS.md") != "be kind" {
		t.Errorf("beside another holder: %v %v", res, err)
	}
	if _, err := c.Release(as("ana"), &pb.ReleaseRequest{SandboxId: "-", LeaseId: other.GetLease().GetLeaseId()}); err != nil {
		t.Fatal(err)
	}
	before := w.fetched.Load()
	res, err = c.Project(as("ana"), &pb.ProjectRequest{SandboxId: "-", FencingToken: token})
	p := res.GetProjection()
	if err != nil || p.GetWritten() != 1 || p.GetRemoved() != 1 || len(p.GetConflicts()) != 1 || p.GetConflicts()[0] != "mine" || w.fetched.Load()-before != 1 {
		t.Errorf("the increment: %v %v, %d fetched", p, err, w.fetched.Load()-before)
	}
	if out := output(t, c, as("ana"), "cat AGENTS.md mine; ls knowledge"); out != "be kinderown\n" {
		t.Errorf("after it: %q", out)
	}

	// Another sandbox takes the contents from the cache; a snapshot has none of them.
	before = w.fetched.Load()
	if _, err := c.Acquire(as("ben"), &pb.AcquireRequest{Spec: &pb.SandboxSpec{Project: true}}); err != nil {
		t.Fatal(err)
	}
	if n := w.fetched.Load() - before; n != 1 {
		t.Errorf("%d files were fetched again, only the one that nobody had is new", n)
	}
	snap, err := c.Snapshot(as("ana"), &pb.SnapshotRequest{SandboxId: "-"})
	if err != nil || snap.GetSnapshot().GetEntries() != 1 {
		t.Errorf("Snapshot: %v %v", snap, err)
	}
}

var insecureOption = grpc.WithTransportCredentials(insecure.NewCredentials())

func hexSum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}
