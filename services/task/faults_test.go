package task_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/tasktest"
)

// broken is a connection to a service that is right, spoiled so that it looks like one that is not.
type broken struct {
	grpc.ClientConnInterface
	call func(ctx context.Context, method string, in, out any, next func(context.Context, any) error) error
	// endless drops the last message of watches.
	endless bool
}

// Invoke spoils a unary call.
func (b *broken) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	next := func(ctx context.Context, in any) error {
		return b.ClientConnInterface.Invoke(ctx, method, in, out, opts...)
	}
	if b.call == nil {
		return next(ctx, in)
	}
	return b.call(ctx, method[strings.LastIndex(method, "/")+1:], in, out, next)
}

// NewStream spoils a stream.
func (b *broken) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := b.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil || !b.endless {
		return s, err
	}
	return endless{s}, nil
}

type endless struct{ grpc.ClientStream }

func (e endless) RecvMsg(m any) error {
	if err := e.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if item, ok := m.(*taskv1.WatchTasksResponse); ok && item.GetEnd() != nil {
		return e.ClientStream.RecvMsg(m)
	}
	return nil
}

// TestSuiteNoticesFaults runs the black-box suite against services that seem broken.
func TestSuiteNoticesFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	faults := map[string]func() *broken{
		"ignores the user": func() *broken {
			return &broken{call: func(ctx context.Context, _ string, in, _ any, next func(context.Context, any) error) error {
				id, _ := identity.FromContext(ctx)
				if id.User != "" {
					id.User = "everybody"
				}
				return next(identity.NewContext(ctx, id), in)
			}}
		},
		"ignores the fencing token": func() *broken { return &broken{call: anyToken()} },
		"drops completions": func() *broken {
			return &broken{call: func(ctx context.Context, method string, in, _ any, next func(context.Context, any) error) error {
				if method == "CompleteTask" {
					return nil
				}
				return next(ctx, in)
			}}
		},
		"forgets effects": func() *broken {
			return &broken{call: func(ctx context.Context, _ string, in, _ any, next func(context.Context, any) error) error {
				id, _ := identity.FromContext(ctx)
				id.Effect = ""
				return next(identity.NewContext(ctx, id), in)
			}}
		},
		"does not cancel": func() *broken {
			return &broken{call: func(ctx context.Context, method string, in, out any, next func(context.Context, any) error) error {
				if cancel, ok := out.(*taskv1.CancelTaskResponse); ok {
					cancel.Requested = true
					return nil
				}
				return next(ctx, in)
			}}
		},
		"never takes a lease back": func() *broken {
			return &broken{call: func(ctx context.Context, _ string, in, _ any, next func(context.Context, any) error) error {
				if lease, ok := in.(*taskv1.LeaseTasksRequest); ok {
					lease = proto.CloneOf(lease)
					lease.LeaseDuration = durationpb.New(10 * time.Minute)
					in = lease
				}
				return next(ctx, in)
			}}
		},
		"ignores deadlines": func() *broken {
			return &broken{call: func(ctx context.Context, _ string, in, _ any, next func(context.Context, any) error) error {
				if create, ok := in.(*taskv1.CreateTaskRequest); ok {
					create = proto.CloneOf(create)
					create.Timeout = nil
					in = create
				}
				return next(ctx, in)
			}}
		},
		"ends watches without a word": func() *broken { return &broken{endless: true} },
	}
	// All at once: nearly all of the time is waiting for what does not happen.
	var wg sync.WaitGroup
	for name, fault := range faults {
		r := newRig(t)
		r.start(t)
		wg.Go(func() {
			found := testkit.Failures(func(t testkit.T) {
				tasktest.Run(t, func(tb testing.TB) grpc.ClientConnInterface {
					b := fault()
					b.ClientConnInterface = r.dial(tb)
					return b
				})
			})
			if len(found) == 0 {
				t.Errorf("the suite does not notice a service that %s", name)
			}
			t.Logf("a service that %s: %d findings", name, len(found))
		})
	}
	wg.Wait()
}

// anyToken replaces each fencing token by the present one, which it knows from the leases.
func anyToken() func(ctx context.Context, method string, in, out any, next func(context.Context, any) error) error {
	var (
		mu      sync.Mutex
		current = map[string]*taskv1.Lease{}
	)
	return func(ctx context.Context, _ string, in, out any, next func(context.Context, any) error) error {
		mu.Lock()
		if r, ok := in.(*taskv1.CompleteTaskRequest); ok && current[r.GetTaskId()] != nil {
			r = proto.CloneOf(r)
			r.WorkerId, r.FencingToken = current[r.GetTaskId()].GetWorkerId(), current[r.GetTaskId()].GetFencingToken()
			in = r
		}
		mu.Unlock()
		err := next(ctx, in)
		mu.Lock()
		defer mu.Unlock()
		if leased, ok := out.(*taskv1.LeaseTasksResponse); ok {
			for _, one := range leased.GetTasks() {
				current[one.GetId()] = one.GetLease()
			}
		}
		return err
	}
}
