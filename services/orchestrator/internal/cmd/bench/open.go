package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

const (
	openEvents = 1_000
	openRounds = 50
	// openEvery is how often the threads get a checkpoint.
	openEvery = 200
)

// open measures the opening of a thread of 1,000 events through the whole chain of a server in memory, with and without checkpoints. The last checkpoint is as far from the end
// as one can be.
func open(b *measure.B) {
	c := orchestratortest.NewCluster(b, orchestratortest.Script, access.Config{})
	threads := threadv1.NewThreadServiceClient(c.Dial("workspace"))
	for _, with := range []bool{false, true} {
		name := map[bool]string{false: "whole", true: "checkpoint"}[with]
		ctx := identity.NewContext(b.Ctx, identity.Identity{User: "bench", Session: name})
		_, events := steps(b, openEvents-1, func(t *loop.Thread) *payload {
			if !with || t.Seq%openEvery != openEvery-1 {
				return nil
			}
			p, err := checkpoint.Payload(ctx, threads, t)
			b.Must(err)
			return p
		})
		write(b, ctx, threads, events)
		var times []time.Duration
		for range openRounds {
			times = append(times, measure.Timed(func() {
				got, err := checkpoint.Open(ctx, threads, 0, slog.New(slog.DiscardHandler))
				b.Must(err)
				if got.Thread.Seq != int64(len(events)) || (got.CheckpointSeq > 0) != with {
					b.Fatalf("opened up to %d from checkpoint %d", got.Thread.Seq, got.CheckpointSeq)
				}
			}))
		}
		took := measure.Milliseconds(measure.Median(times))
		b.Say("open: %d events, %s: %.2f ms", len(events), name, took)
		b.Report.AtMost("open_"+name+"_ms", took, 10)
	}
}

// write commits events to the thread of the context.
func write(b *measure.B, ctx context.Context, threads threadv1.ThreadServiceClient, events []*threadv1.Event) {
	owner := &threadv1.Owner{Id: "bench/1"}
	_, err := threads.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: owner})
	b.Must(err)
	got, err := threads.Acquire(ctx, &threadv1.AcquireRequest{Owner: owner})
	b.Must(err)
	for at := 0; at < len(events); at += 200 {
		_, err := threads.Commit(ctx, &threadv1.CommitRequest{
			OwnerId: owner.GetId(), Epoch: got.GetHead().GetEpoch(), BatchId: fmt.Sprint(at), ExpectedSeq: int64(at), Events: events[at:min(at+200, len(events))],
		})
		b.Must(err)
	}
}
