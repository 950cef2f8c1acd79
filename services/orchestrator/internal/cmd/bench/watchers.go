package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

const (
	watchedRuns = 100
	// watchersOfRun is how many watch each of them.
	watchersOfRun = 100
	// watchersOfConn share a connection, as those of one gateway do.
	watchersOfConn = 500
)

// watchers attaches many watchers to runs that work, and looks at the heap of the process, which has both ends of each stream.
func watchers(b *measure.B) {
	c := orchestratortest.NewCluster(b, "turns:\n  - {always: true, text: I think and think, hang: true}\n", access.Config{})
	r := c.Start(func(cfg *orchestrator.Config) {
		cfg.MaxThreadsPerUser, cfg.DrainTimeout = watchedRuns, 100*time.Millisecond
	})
	ctx, cancel := context.WithCancel(b.Ctx)
	var wait sync.WaitGroup
	b.Cleanup(func() { cancel(); wait.Wait() })
	before := heap()
	runs := b.Size(watchedRuns)
	clients := []orchestratorv1.RunServiceClient{orchestratorv1.NewRunServiceClient(r.Conn)}
	attached := make(chan error, runs*watchersOfRun)
	for i := range runs {
		ctx := identity.NewContext(ctx, identity.Identity{User: "bench", Session: fmt.Sprint(i)})
		got, err := clients[0].StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{Text: "go"}})
		b.Must(err)
		for j := range watchersOfRun {
			if n := i*watchersOfRun + j; n%watchersOfConn == 0 {
				clients = append(clients, orchestratorv1.NewRunServiceClient(c.Dial(r.Name)))
			}
			client := clients[len(clients)-1]
			wait.Go(func() { watch(ctx, client, got.GetRun().GetId(), attached) })
		}
	}
	for range runs * watchersOfRun {
		b.Must(<-attached)
	}
	grown := float64(heap()-before) / (1 << 20)
	b.Say("watchers: %d of %d runs: %.0f MiB", runs*watchersOfRun, runs, grown)
	b.Report.AtMost("watchers_heap_mib", measure.Round2(grown), 1024)
}

// watch attaches to a run, says when it has the first text that is on its way, and stays.
func watch(ctx context.Context, client orchestratorv1.RunServiceClient, run string, attached chan<- error) {
	var told atomic.Bool
	s, err := client.AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: run})
	for err == nil {
		var m *orchestratorv1.AttachRunResponse
		if m, err = s.Recv(); m.GetEvent().GetDelta() != nil && !told.Swap(true) {
			attached <- nil
		}
	}
	if !told.Load() {
		attached <- err
	}
}

// heap is what is in use, with the stacks.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
