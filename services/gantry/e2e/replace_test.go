package e2e_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/demo"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// yes answers every call with OK and an empty message, and every stream with one empty message.
type yes struct{}

func (yes) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return nil }

func (yes) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &yesStream{ctx: ctx}, nil
}

type yesStream struct {
	ctx      context.Context
	answered bool
}

func (*yesStream) Header() (metadata.MD, error) { return nil, nil }
func (*yesStream) Trailer() metadata.MD         { return nil }
func (*yesStream) CloseSend() error             { return nil }
func (*yesStream) SendMsg(any) error            { return nil }
func (s *yesStream) Context() context.Context   { return s.ctx }
func (s *yesStream) RecvMsg(any) error {
	if s.answered {
		return io.EOF
	}
	s.answered = true
	return nil
}

// TestTheDemoNoticesServicesThatOnlySayYes replaces one service after another: each time the demonstration must find that
// something did not really happen. Untouched, it must be content, or the test would say nothing.
func TestTheDemoNoticesServicesThatOnlySayYes(t *testing.T) {
	for _, name := range []string{"", suite.Workspace, suite.Memory, suite.Sandbox, suite.Task, suite.Orchestrator} {
		t.Run("replaced: "+name, func(t *testing.T) {
			p := newInProcess(t)
			if name != "" {
				p.options.Replace = map[string]grpc.ClientConnInterface{name: yes{}}
			}
			p.start(t)
			report, err := runDemo(t, p.running)
			if name == "" {
				if err != nil || !report.OK() {
					t.Fatalf("the demonstration fails by itself: %+v, %v", report, err)
				}
				return
			}
			if err == nil && report.OK() {
				t.Errorf("the demonstration is content without %s: %+v", name, report)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it does not notice but hang: %v", err)
			}
		})
	}
}

// demoTimeout is far more than the demonstration takes.
const demoTimeout = time.Minute

// runDemo makes the demonstration as `gantry demo` does.
func runDemo(t *testing.T, s *suite.Suite) (*demo.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	ctx = access.NewTokenContext(ctx, token(t, identity.DefaultTenant, "*"))
	return demo.Run(ctx, demo.Clients{
		Files: fsv1.NewFilesystemServiceClient(s.Conn(suite.Orchestrator)), Memory: memoryv1.NewMemoryServiceClient(s.Conn(suite.Memory)),
		Threads: threadv1.NewThreadServiceClient(s.Conn(suite.Workspace)), Tasks: taskv1.NewTaskServiceClient(s.Conn(suite.Task)),
		Sandbox: sandboxv1.NewSandboxServiceClient(s.Conn(suite.Sandbox)), Runs: orchestratorv1.NewRunServiceClient(s.Conn(suite.Orchestrator)),
	}, demo.Show{Line: func(string, ...any) {}, Event: func(*orchestratorv1.RunEvent) {}})
}
