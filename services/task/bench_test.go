package task_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/identity"
)

// benchContext is the context of a user without a deadline.
func benchContext(user string) context.Context {
	return identity.NewContext(context.Background(), identity.Identity{Tenant: identity.DefaultTenant, Agent: "coder", User: user, Session: "s1"})
}

// BenchmarkClaimComplete measures claims and completions over gRPC in memory with 32 workers on sqlite. One operation is one task, leased (in batches) and completed.
func BenchmarkClaimComplete(b *testing.B) {
	for _, batch := range []int32{1, 8} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := newRig(b)
			r.cfg.LivePerOwner = b.N + 1000
			r.start(b)
			c := r.client(b)
			fill(b, c, b.N)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for i := range 32 {
				wg.Go(func() {
					ctx := benchContext("")
					for left.Load() > 0 {
						leased, err := c.LeaseTasks(ctx, &taskv1.LeaseTasksRequest{
							WorkerId: fmt.Sprint("w", i), MaxTasks: batch, LeaseDuration: durationpb.New(time.Minute), MaxWait: durationpb.New(0),
						})
						if err != nil {
							b.Error(err)
							return
						}
						if len(leased.GetTasks()) == 0 {
							return
						}
						for _, one := range leased.GetTasks() {
							if _, err := c.CompleteTask(ctx, &taskv1.CompleteTaskRequest{
								TaskId: one.GetId(), WorkerId: one.GetLease().GetWorkerId(), FencingToken: one.GetLease().GetFencingToken(), Result: &taskv1.TaskResult{Text: "done"},
							}); err != nil {
								b.Error(err)
								return
							}
							left.Add(-1)
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if n := left.Load(); n != 0 {
				b.Errorf("%d tasks are left", n)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkCreateToLease measures the time from the call that creates a task to its arrival at a worker that waits.
func BenchmarkCreateToLease(b *testing.B) {
	for _, waiting := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			r := newRig(b)
			r.cfg.LivePerOwner = waiting + b.N + 1000
			r.start(b)
			c := r.client(b)
			// Rows that nobody takes must not cost those that somebody waits for.
			fill(b, c, waiting)
			arrived := make(chan error)
			go func() {
				for range b.N {
					leased, err := c.LeaseTasks(benchContext(""), &taskv1.LeaseTasksRequest{WorkerId: "w", Queue: "fast", MaxWait: durationpb.New(time.Minute), LeaseDuration: durationpb.New(time.Minute)})
					if err == nil && len(leased.GetTasks()) != 1 {
						err = fmt.Errorf("%d tasks", len(leased.GetTasks()))
					}
					arrived <- err
				}
			}()
			ctx := benchContext("ana")
			b.ResetTimer()
			for range b.N {
				if _, err := c.CreateTask(ctx, &taskv1.CreateTaskRequest{Kind: "job", Queue: "fast"}); err != nil {
					b.Fatal(err)
				}
				if err := <-arrived; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// fill creates tasks, many at once.
func fill(b *testing.B, c taskv1.TaskServiceClient, n int) {
	b.Helper()
	ctx := benchContext("ana")
	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)
	for range 64 {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if _, err := c.CreateTask(ctx, &taskv1.CreateTaskRequest{Kind: "job", Input: &taskv1.TaskInput{Text: "work"}}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
