package inproc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an echo server on a name until the test ends.
func serve(t testing.TB, network *inproc.Network, name string) *grpc.Server {
	t.Helper()
	l, err := network.Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	filesystemv1.RegisterFilesystemServiceServer(s, fakefs.Echo())
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return s
}

func dial(t testing.TB, network *inproc.Network, name string) filesystemv1.FilesystemServiceClient {
	t.Helper()
	conn, err := network.Dial(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return filesystemv1.NewFilesystemServiceClient(conn)
}

func stat(ctx context.Context, c filesystemv1.FilesystemServiceClient, opts ...grpc.CallOption) error {
	response, err := c.Stat(ctx, &filesystemv1.StatRequest{Path: "a.md"}, opts...)
	if err == nil && response.GetInfo().GetPath() != "a.md" {
		return errors.New("the echo is another path")
	}
	return err
}

func TestACallMayBeMadeBeforeTheServerIsThere(t *testing.T) {
	network := inproc.New()
	c := dial(t, network, "workspace")
	result := make(chan error, 1)
	go func() { result <- stat(t.Context(), c) }()
	serve(t, network, "workspace")
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestNamesAreApart(t *testing.T) {
	network := inproc.New()
	serve(t, network, "workspace")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := stat(ctx, dial(t, network, "memory")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("call to a name on which nobody listens: %v", err)
	}
	if err := stat(t.Context(), dial(t, network, "workspace")); err != nil {
		t.Error(err)
	}
	if err := stat(ctx, dial(t, inproc.New(), "workspace")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("call on another network: %v", err)
	}
}

func TestANameIsTakenUntilItsListenerCloses(t *testing.T) {
	network := inproc.New()
	l, err := network.Listen("a")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Addr().Network() + " " + l.Addr().String(); got != "memory memory:a" {
		t.Errorf("address %q", got)
	}
	if _, err := network.Listen("a"); err == nil {
		t.Fatal("a name was given twice")
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	again, err := network.Listen("a")
	if err != nil {
		t.Fatalf("the name is still taken: %v", err)
	}
	again.Close()
	if _, err := network.Listen(""); err == nil {
		t.Error("the empty name was taken")
	}
	if _, err := network.Dial(""); err == nil {
		t.Error("the empty name was dialled")
	}
}

func TestAConnectionSurvivesARestartOfTheServer(t *testing.T) {
	network := inproc.New()
	first := serve(t, network, "workspace")
	c := dial(t, network, "workspace")
	if err := stat(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	serve(t, network, "workspace")
	// A call that went out on the dying connection before its end was noticed is UNAVAILABLE, as over TCP; the connection recovers.
	testkit.Eventually(t, 10*time.Second, func() error {
		err := stat(t.Context(), c)
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatalf("after the restart: %v", err)
		}
		return err
	})
}
