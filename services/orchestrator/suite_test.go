package orchestrator_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

var target = flag.String("target", os.Getenv("GANTRY_TARGET"), "address of an orchestrator to run the suite against; its model must play the suite's script (-print-script)")

var printScript = flag.Bool("print-script", false, "print the script that the model of -target must play, and run nothing")

func TestMain(m *testing.M) {
	flag.Parse()
	if *printScript {
		os.Stdout.WriteString(orchestratortest.Script)
		return
	}
	testkit.LeakMain(m)
}

// TestSuite runs the black-box suite against one replica, over services in memory.
func TestSuite(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	r := c.Start(nil)
	orchestratortest.Run(testkit.Wrap(t), func(testkit.T) orchestratortest.Target { return orchestratortest.Target{Conn: r.Conn} })
}

// TestSuiteAtAddress runs it against any orchestrator.
func TestSuiteAtAddress(t *testing.T) {
	if *target == "" {
		t.Skip("no -target is given")
	}
	conn, err := client.Dial(*target, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	orchestratortest.Run(testkit.Wrap(t), func(testkit.T) orchestratortest.Target { return orchestratortest.Target{Conn: conn} })
}

// faulty is an orchestrator with a fault: it changes the context and the request of a call, and drops messages of streams.
type faulty struct {
	grpc.ClientConnInterface
	ctx     func(context.Context) context.Context
	request func(any)
	drop    func(*orchestratorv1.RunEvent) bool
}

func (f faulty) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return f.ClientConnInterface.Invoke(f.change(ctx, args), method, args, reply, opts...)
}

func (f faulty) change(ctx context.Context, args any) context.Context {
	if f.request != nil {
		f.request(args)
	}
	if f.ctx != nil {
		return f.ctx(ctx)
	}
	return ctx
}

func (f faulty) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := f.ClientConnInterface.NewStream(f.change(ctx, nil), desc, method, opts...)
	return faultyStream{s, f}, err
}

type faultyStream struct {
	grpc.ClientStream
	f faulty
}

func (s faultyStream) SendMsg(m any) error {
	if s.f.request != nil {
		s.f.request(m)
	}
	return s.ClientStream.SendMsg(m)
}

func (s faultyStream) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			return err
		}
		e, ok := m.(interface {
			GetEvent() *orchestratorv1.RunEvent
		})
		if !ok || s.f.drop == nil || !s.f.drop(e.GetEvent()) {
			return nil
		}
	}
}

// TestTheSuiteNoticesFaults runs groups of the suite against orchestrators that are broken on purpose. It must fail on each.
func TestTheSuiteNoticesFaults(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	good := c.Start(nil).Conn
	oneUser := func(ctx context.Context) context.Context {
		id, _ := identity.FromContext(ctx)
		id.User = "everybody"
		return identity.NewContext(ctx, id)
	}
	for name, c := range map[string]struct {
		group string
		fault faulty
	}{
		"users share their threads": {"isolation", faulty{ctx: oneUser}},
		"request ids are ignored": {"start", faulty{request: func(req any) {
			if call, ok := req.(*orchestratorv1.CallAgentRequest); ok {
				call.Input.RequestId = ""
			}
		}}},
		"results are lost": {"stream", faulty{drop: func(ev *orchestratorv1.RunEvent) bool { return ev.GetEvent().GetType() == "tool/ended" }}},
		"no end is told":   {"models", faulty{drop: func(ev *orchestratorv1.RunEvent) bool { return ev.GetTerminal() != nil }}},
		"rules are ignored": {"tools", faulty{request: func(req any) {
			if call, ok := req.(*orchestratorv1.StreamAgentRequest); ok {
				call.Input.Spec = nil
			}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.fault.ClientConnInterface = good
			failures := testkit.Failures(func(t testkit.T) {
				orchestratortest.Run(t, func(testkit.T) orchestratortest.Target { return orchestratortest.Target{Conn: c.fault} }, c.group)
			})
			if len(failures) == 0 {
				t.Error("the suite passes")
			}
		})
	}
}
