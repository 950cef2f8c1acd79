package sandboxtest

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

var shareCases = []Case{
	{"a bucket has one sandbox, however many start it at once", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		var mu sync.Mutex
		seen := map[string]int{}
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				resp, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("echo x >> shared")})
				if err != nil {
					tb.Errorf("RunCommand: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				seen[resp.GetStarted().GetSandboxId()]++
			})
		}
		all.Wait()
		want(tb, "sandboxes", len(seen), 1)
		want(tb, "lines", len(lines(e.out(tb, ctx, "cat shared"))), 12)
		list, err := e.Sandbox.List(ctx, &pb.ListRequest{})
		if err != nil || len(list.GetSandboxes()) != 1 || list.GetSandboxes()[0].GetState() != pb.SandboxState_SANDBOX_STATE_RUNNING {
			tb.Errorf("List: %v %v", list, err)
		}
	}},
	{"leases share, exclude, wait and end", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		one, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{})
		if err != nil {
			tb.Fatal(err)
		}
		id := one.GetSandbox().GetSandboxId()
		want(tb, "created", one.GetCreated(), true)
		two, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{})
		if err != nil {
			tb.Fatal(err)
		}
		want(tb, "created again", two.GetCreated(), false)
		if two.GetLease().GetFencingToken() <= one.GetLease().GetFencingToken() {
			tb.Error("the fencing token did not grow")
		}
		_, err = e.Sandbox.Acquire(ctx, &pb.AcquireRequest{Exclusive: true})
		refused(tb, "exclusive beside others", err, errdefs.ErrAborted, "SANDBOX_BUSY")
		got := make(chan *pb.AcquireResponse, 1)
		go func() {
			resp, err := e.Sandbox.Acquire(ctx, &pb.AcquireRequest{Exclusive: true, Wait: durationpb.New(20 * time.Second)})
			if err != nil {
				tb.Errorf("waiting: %v", err)
			}
			got <- resp
		}()
		for _, l := range []*pb.Lease{one.GetLease(), two.GetLease()} {
			if _, err := e.Sandbox.Release(ctx, &pb.ReleaseRequest{SandboxId: id, LeaseId: l.GetLeaseId()}); err != nil {
				tb.Fatal(err)
			}
		}
		alone := <-got
		if alone == nil {
			return
		}
		_, err = e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true")})
		refused(tb, "a call beside an exclusive lease", err, errdefs.ErrAborted, "SANDBOX_BUSY")
		_, err = e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true"), FencingToken: one.GetLease().GetFencingToken()})
		refused(tb, "a call under an older lease", err, errdefs.ErrAborted, "FENCED")
		if _, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true"), FencingToken: alone.GetLease().GetFencingToken()}); err != nil {
			tb.Errorf("a call under the exclusive lease: %v", err)
		}
		if _, err := e.Sandbox.Renew(ctx, &pb.RenewRequest{SandboxId: id, LeaseId: alone.GetLease().GetLeaseId(), LeaseDuration: durationpb.New(time.Second)}); err != nil {
			tb.Errorf("Renew: %v", err)
		}
		eventually(tb, "the lease has run out", func() bool {
			_, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true")})
			return err == nil
		})
		_, err = e.Sandbox.Renew(ctx, &pb.RenewRequest{SandboxId: id, LeaseId: alone.GetLease().GetLeaseId()})
		refused(tb, "renewing it", err, errdefs.ErrFailedPrecondition, "LEASE_EXPIRED")
	}},
	{"a paused sandbox keeps its processes and takes no commands", func(tb testing.TB, e *Env) {
		ctx := e.As("ana")
		if _, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: &pb.Command{Script: []byte("while :; do echo x >> ticks; sleep 0.005; done"), Background: true}}); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "ticking", func() bool { return size(tb, e, ctx, "ticks") > 0 })
		for range 2 {
			resp, err := e.Sandbox.Pause(ctx, &pb.PauseRequest{SandboxId: "-"})
			if err != nil || resp.GetSandbox().GetState() != pb.SandboxState_SANDBOX_STATE_PAUSED {
				tb.Fatalf("Pause: %v %v", resp, err)
			}
		}
		before := size(tb, e, ctx, "ticks")
		// The same loop goes round elsewhere meanwhile.
		e.out(tb, e.As("ben"), "i=0; while [ $i -lt 20 ]; do echo x >> ticks; sleep 0.005; i=$((i+1)); done")
		want(tb, "ticks while paused", size(tb, e, ctx, "ticks"), before)
		_, err := e.Sandbox.RunCommand(ctx, &pb.RunCommandRequest{Command: script("true")})
		refused(tb, "a command", err, errdefs.ErrFailedPrecondition, "SANDBOX_PAUSED")
		if _, err := e.Sandbox.Resume(ctx, &pb.ResumeRequest{SandboxId: "-"}); err != nil {
			tb.Fatal(err)
		}
		eventually(tb, "ticking again", func() bool { return size(tb, e, ctx, "ticks") > before })
	}},
}
