package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	fspb "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Target is the implementation under test.
type Target struct {
	// Conn reaches it by package client of the libs, which carries identities and gives typed errors back.
	Conn grpc.ClientConnInterface
	// Restart kills the serving process without warning and starts it again. Nil: that cannot be done here.
	Restart func(tb testing.TB) grpc.ClientConnInterface
}

// Case is one property of the service.
type Case struct {
	Name string
	Run  func(tb testing.TB, e *Env)
}

// Env is what a case works with.
type Env struct {
	Target  Target
	Sandbox pb.SandboxServiceClient
	Files   fspb.FilesystemServiceClient
	prefix  string
	users   []context.Context
}

// Cases returns the whole suite.
func Cases() []Case {
	var all []Case
	for _, list := range [][]Case{execCases, shareCases, isolationCases, snapshotCases, fileCases, restartCases, laterCases} {
		all = append(all, list...)
	}
	return all
}

// Run runs the suite. Each case uses buckets that nobody else has, so all may use one target, and a target may be used again.
func Run(t *testing.T, target func(tb testing.TB) Target) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { RunCase(t, c, target(t)) })
	}
}

// RunCase runs one case.
func RunCase(tb testing.TB, c Case, target Target) {
	e := &Env{Target: target, prefix: rand.Text()[:10]}
	e.connect(target.Conn)
	tb.Cleanup(func() {
		for _, ctx := range e.users {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			_, _ = e.Sandbox.Destroy(ctx, &pb.DestroyRequest{SandboxId: "-", Force: true})
			cancel()
		}
	})
	c.Run(tb, e)
}

func (e *Env) connect(conn grpc.ClientConnInterface) {
	e.Sandbox, e.Files = pb.NewSandboxServiceClient(conn), fspb.NewFilesystemServiceClient(conn)
}

// As returns the context of a user of this case.
func (e *Env) As(user string) context.Context {
	ctx := identity.NewContext(context.Background(), identity.Identity{Agent: "suite", User: e.prefix + user, Session: "s"})
	e.users = append(e.users, ctx)
	return ctx
}

// withEffect returns the context with an effect id.
func withEffect(ctx context.Context, name string) context.Context {
	id, _ := identity.FromContext(ctx)
	id.Effect = effect.For(time.Now(), id.User, name)
	return identity.NewContext(ctx, id)
}

func effectOf(ctx context.Context) string {
	id, _ := identity.FromContext(ctx)
	return id.Effect
}

func script(text string) *pb.Command { return &pb.Command{Script: []byte(text)} }

// run runs a script and fails the case when the call does.
func (e *Env) run(tb testing.TB, ctx context.Context, text string) *pb.RunCommandResponse {
	tb.Helper()
	resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script(text)})
	if err != nil {
		tb.Fatalf("RunCommand(%.60q): %v (%s)", text, err, errdefs.ReasonOf(err))
	}
	return resp
}

// out is the output of a script that must succeed.
func (e *Env) out(tb testing.TB, ctx context.Context, text string) string {
	tb.Helper()
	resp := e.run(tb, ctx, text)
	if resp.GetExit().GetCode() != 0 || resp.GetExit().GetStartError() != "" {
		tb.Errorf("%.60q ended with %v: %s", text, resp.GetExit(), resp.GetStderr().GetText())
	}
	return resp.GetStdout().GetText()
}

// event is what the two streams of an exec have in common.
type event interface {
	GetStarted() *pb.ExecStarted
	GetStdout() *pb.Output
	GetStderr() *pb.Output
	GetExit() *pb.ExecExit
}

// transcript is a stream that was followed to its end.
type transcript struct {
	started     *pb.ExecStarted
	out, errOut string
	exit        *pb.ExecExit
}

// follow reads a stream to its end and checks its form: started first, exit last, nothing after it.
func follow[E event](tb testing.TB, recv func() (E, error)) (t transcript) {
	tb.Helper()
	var out, errs bytes.Buffer
	for {
		ev, err := recv()
		if err != nil {
			tb.Fatalf("the stream broke: %v", err)
		}
		switch {
		case ev.GetStarted() != nil:
			if t.started != nil {
				tb.Error("started came twice")
			}
			t.started = ev.GetStarted()
		case t.started == nil:
			tb.Fatal("started did not come first")
		case ev.GetStdout() != nil:
			out.Write(ev.GetStdout().GetData())
		case ev.GetStderr() != nil:
			errs.Write(ev.GetStderr().GetData())
		case ev.GetExit() != nil:
			t.exit, t.out, t.errOut = ev.GetExit(), out.String(), errs.String()
			if _, err := recv(); !errors.Is(err, io.EOF) {
				tb.Errorf("after the exit: %v", err)
			}
			return t
		}
	}
}

func want[T comparable](tb testing.TB, what string, got, expected T) {
	tb.Helper()
	if got != expected {
		tb.Errorf("%s: got %v, want %v", what, got, expected)
	}
}

// refused checks the class and the reason of an error.
func refused(tb testing.TB, what string, err, class error, reason string) {
	tb.Helper()
	if !errors.Is(err, class) || errdefs.ReasonOf(err) != reason {
		tb.Errorf("%s: got %v (%s), want %v (%s)", what, err, errdefs.ReasonOf(err), class, reason)
	}
}

// eventually asks until the answer is yes.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	testkit.Eventually(tb, 15*time.Second, func() error {
		if !ok() {
			return errors.New("not " + what)
		}
		return nil
	})
}

func lines(s string) []string { return strings.Fields(s) }
