package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	workspacepb "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
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
	for deadline := time.Now().Add(15 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
	}
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
	eventually(t, "released", func() bool {
		list, err := c.List(as("ana"), &pb.ListRequest{})
		return err == nil && len(list.GetSandboxes()) == 0
	})
	if got := output(t, c, as("ana"), "cat f"); got != "kept\n" {
		t.Errorf("after the release: %q", got)
	}
	bg := sh("sleep 0.6; echo x > late")
	bg.Command.Background = true
	if _, err := c.RunCommand(as("ana"), bg); err != nil {
		t.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond)
	if list, err := c.List(as("ana"), &pb.ListRequest{}); err != nil || len(list.GetSandboxes()) != 1 {
		t.Errorf("a sandbox with a running command was released: %v %v", list, err)
	}
}

func TestFullMachineIsTypedAndIdleOnesMakeRoom(t *testing.T) {
	needNamespace(t)
	cfg := settings(t)
	cfg.MaxSandboxes = 2
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
	pids, _ := filepath.Glob(filepath.Join(cfg.Dir, "live", "namespace", "*", "supervisor.pid"))
	if len(pids) != 1 {
		t.Fatalf("supervisors: %v", pids)
	}
	text, err := os.ReadFile(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	kill(t, string(text))
	eventually(t, "noticed", func() bool {
		list, err := c.List(as("ana"), &pb.ListRequest{})
		return err == nil && len(list.GetSandboxes()) == 0
	})
	if _, err := c.RunCommand(effectful, req); errdefs.ReasonOf(err) != "EXEC_LOST" {
		t.Errorf("the repeat of a lost command: %v", err)
	}
	rec, err := c.GetExecRecord(as("ana"), &pb.GetExecRecordRequest{SandboxId: "-", Effect: id.Effect})
	if err != nil || rec.GetRecord().GetExit().GetState() != pb.ExecState_EXEC_STATE_LOST || !rec.GetVoided() {
		t.Errorf("its record: %v %v", rec, err)
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

var insecureOption = grpc.WithTransportCredentials(insecure.NewCredentials())

func hexSum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// kill ends a process by its id.
func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(n, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
