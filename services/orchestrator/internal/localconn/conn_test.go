package localconn_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/localconn"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// files is a service that answers with what it was asked.
type files struct {
	fsv1.UnimplementedFilesystemServiceServer
	kept *fsv1.ReadResponse
}

func (f *files) Read(ctx context.Context, req *fsv1.ReadRequest) (*fsv1.ReadResponse, error) {
	if req.GetPath() == "" {
		return nil, errdefs.New(errdefs.ErrNotFound, "d", "NOT_FOUND", "nothing")
	}
	id, _ := identity.FromContext(ctx)
	f.kept = &fsv1.ReadResponse{Text: id.User + " reads " + req.GetPath()}
	return f.kept, nil
}

func (f *files) Grep(req *fsv1.GrepRequest, s grpc.ServerStreamingServer[fsv1.GrepResponse]) error {
	for {
		if err := s.Send(&fsv1.GrepResponse{}); err != nil {
			return err
		}
		if req.GetPattern() == "once" {
			return nil
		}
		if req.GetPattern() == "fail" {
			return errdefs.New(errdefs.ErrInvalidArgument, "d", "PATTERN_INVALID", "no")
		}
	}
}

func (f *files) Upload(s grpc.ClientStreamingServer[fsv1.UploadRequest, fsv1.UploadResponse]) error {
	n := int64(0)
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&fsv1.UploadResponse{Info: &fsv1.FileInfo{SizeBytes: n}})
		}
		if err != nil {
			return err
		}
		n += int64(len(m.GetChunk()))
	}
}

func client() (fsv1.FilesystemServiceClient, *files) {
	f := &files{}
	return fsv1.NewFilesystemServiceClient(localconn.New(&fsv1.FilesystemService_ServiceDesc, f)), f
}

func TestUnary(t *testing.T) {
	c, f := client()
	ctx := identity.NewContext(context.Background(), identity.Identity{User: "ana"})
	got, err := c.Read(ctx, &fsv1.ReadRequest{Path: "a"})
	if err != nil || got.GetText() != "ana reads a" {
		t.Fatalf("%v, %v", got, err)
	}
	if got.Text = "changed"; f.kept.GetText() != "ana reads a" {
		t.Error("the message is shared")
	}
	if _, err := c.Read(ctx, &fsv1.ReadRequest{}); !errors.Is(err, errdefs.ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	if _, err := c.Stat(ctx, &fsv1.StatRequest{}); err == nil {
		t.Error("what is not implemented answers")
	}
}

func TestServerStream(t *testing.T) {
	c, _ := client()
	for pattern, want := range map[string]error{"once": io.EOF, "fail": errdefs.ErrInvalidArgument} {
		s, err := c.Grep(context.Background(), &fsv1.GrepRequest{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := s.Recv(); !errors.Is(err, want) {
				t.Errorf("%s: the end is %v", pattern, err)
			}
		}
	}
}

func TestACallerWhoLeavesEndsTheHandler(t *testing.T) {
	c, _ := client()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := c.Grep(ctx, &fsv1.GrepRequest{Pattern: "for ever"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel() // the leak check sees to the rest
}

func TestClientStream(t *testing.T) {
	c, _ := client()
	s, err := c.Upload(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Chunk{Chunk: []byte("abcd")}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.CloseAndRecv()
	if err != nil || got.GetInfo().GetSizeBytes() != 12 {
		t.Errorf("%v, %v", got, err)
	}
}
