// Package worker runs the tasks in which agents work for other agents: it leases them from the task service, runs each as a run on a thread of its own, and
// reports how it ended. A task is completed only by a run that said that it is done; a run that ran into a limit leaves a partial result.
package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

const (
	// Queue is where child runs wait.
	Queue = "agent-run"
	// lease is the life of a lease; it is renewed after a third of it.
	lease = 5 * time.Second
	// poll is how long one look for work waits.
	poll = 10 * time.Second
	// pause is the wait after a look that failed.
	pause = 500 * time.Millisecond
)

// Config are the settings of a worker.
type Config struct {
	// Replica names the worker.
	Replica string
	// MaxTasks bounds the tasks that are worked on at once.
	MaxTasks int
	// Tenants are those whose tasks are looked for from the start; others follow when this replica meets them. See [Worker.Meet].
	Tenants []string
	Log     *slog.Logger
}

// maxTenants bounds the tenants that one replica looks for tasks of: each costs a waiting call.
const maxTenants = 1024

// Worker leases tasks and runs them.
type Worker struct {
	cfg     Config
	id      string
	tasks   taskv1.TaskServiceClient
	threads threadv1.ThreadServiceClient
	runs    *run.Manager

	work sync.WaitGroup
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex
	started bool
	tenants map[string]bool
	held    map[string]*job
	// freed is closed and replaced when a job ends.
	freed chan struct{}
}

// job is one task that this worker holds.
type job struct {
	task   *taskv1.Task
	ctx    context.Context
	cancel context.CancelFunc
	// run is set once the run is known, so that a cancel can reach it.
	mu        sync.Mutex
	identity  context.Context
	run       string
	cancelled bool
}

// New makes a worker.
func New(cfg Config, tasks taskv1.TaskServiceClient, threads threadv1.ThreadServiceClient, runs *run.Manager) *Worker {
	var random [8]byte
	rand.Read(random[:])
	w := &Worker{cfg: cfg, id: cfg.Replica + "/" + hex.EncodeToString(random[:]), tasks: tasks, threads: threads, runs: runs, held: map[string]*job{}, tenants: map[string]bool{}, freed: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// Start begins to look for tasks.
func (w *Worker) Start(context.Context) error {
	w.mu.Lock()
	w.started = true
	met := w.tenants
	w.tenants = map[string]bool{}
	w.mu.Unlock()
	for tenant := range met {
		w.Meet(tenant)
	}
	for _, tenant := range w.cfg.Tenants {
		w.Meet(tenant)
	}
	w.work.Go(w.renew)
	return nil
}

// Meet makes the worker look for tasks of a tenant: leases are by tenant, and a task is made by a run of its tenant, which some replica has met. It returns at once.
func (w *Worker) Meet(tenant string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tenants[tenant] || len(w.tenants) >= maxTenants || w.ctx.Err() != nil {
		return
	}
	w.tenants[tenant] = true
	if w.started {
		w.work.Go(func() { w.lease(tenant) })
	}
}

// of is the context of the worker's own calls for a tenant.
func of(ctx context.Context, tenant string) context.Context {
	return identity.NewContext(ctx, identity.Identity{Tenant: tenant, Agent: identity.DefaultAgent})
}

// Stop gives every lease back, so that another worker goes on at once.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock() // whoever meets a tenant just now has begun to look, or will not
	w.stop()
	w.mu.Unlock()
	w.work.Wait()
	w.mu.Lock()
	byTenant := map[string][]*taskv1.Heartbeat{}
	for id, j := range w.held {
		tenant := j.task.GetIdentity().GetTenant()
		byTenant[tenant] = append(byTenant[tenant], &taskv1.Heartbeat{TaskId: id, FencingToken: j.task.GetLease().GetFencingToken(), Release: true})
	}
	w.mu.Unlock()
	var errs []error
	for tenant, beats := range byTenant {
		_, err := w.tasks.HeartbeatTasks(of(ctx, tenant), &taskv1.HeartbeatTasksRequest{WorkerId: w.id, Heartbeats: beats})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lease looks for tasks of a tenant as long as there is room.
func (w *Worker) lease(tenant string) {
	for w.ctx.Err() == nil {
		w.mu.Lock()
		room, freed := w.cfg.MaxTasks-len(w.held), w.freed
		w.mu.Unlock()
		if room <= 0 {
			select {
			case <-freed:
			case <-w.ctx.Done():
			}
			continue
		}
		resp, err := w.tasks.LeaseTasks(of(w.ctx, tenant), &taskv1.LeaseTasksRequest{
			WorkerId: w.id, Queue: Queue, MaxTasks: int32(min(room, 16)), LeaseDuration: durationpb.New(lease), MaxWait: durationpb.New(poll),
		})
		if err != nil {
			if w.ctx.Err() == nil {
				w.cfg.Log.Warn("looking for tasks failed", "tenant", tenant, "error", err)
			}
			w.sleep(pause)
			continue
		}
		for _, t := range resp.GetTasks() {
			w.begin(t)
		}
	}
}

func (w *Worker) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

func (w *Worker) begin(t *taskv1.Task) {
	j := &job{task: t}
	j.ctx, j.cancel = context.WithCancel(w.ctx)
	w.mu.Lock()
	w.held[t.GetId()] = j
	w.mu.Unlock()
	w.work.Go(func() {
		defer j.cancel()
		w.do(j)
		if w.ctx.Err() != nil {
			return // Stop gives it back
		}
		w.mu.Lock()
		if w.held[t.GetId()] == j {
			delete(w.held, t.GetId())
		}
		close(w.freed)
		w.freed = make(chan struct{})
		w.mu.Unlock()
	})
}

// renew keeps the leases, and learns of cancels.
func (w *Worker) renew() {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
			w.beat()
		}
	}
}

func (w *Worker) beat() {
	w.mu.Lock()
	jobs := make(map[string]*job, len(w.held))
	byTenant := map[string][]*taskv1.Heartbeat{}
	for id, j := range w.held {
		jobs[id] = j
		tenant := j.task.GetIdentity().GetTenant()
		byTenant[tenant] = append(byTenant[tenant], &taskv1.Heartbeat{TaskId: id, FencingToken: j.task.GetLease().GetFencingToken()})
	}
	w.mu.Unlock()
	for tenant, beats := range byTenant {
		for part := range slices.Chunk(beats, maxBeats) {
			w.renewPart(tenant, part, jobs)
		}
	}
}

// maxBeats is how many leases one call renews.
const maxBeats = 256

func (w *Worker) renewPart(tenant string, beats []*taskv1.Heartbeat, jobs map[string]*job) {
	ctx, cancel := context.WithTimeout(of(w.ctx, tenant), lease)
	defer cancel()
	resp, err := w.tasks.HeartbeatTasks(ctx, &taskv1.HeartbeatTasksRequest{WorkerId: w.id, Heartbeats: beats})
	if err != nil {
		if w.ctx.Err() == nil {
			w.cfg.Log.Warn("leases of tasks could not be renewed", "tenant", tenant, "error", err)
		}
		return
	}
	for _, r := range resp.GetResults() {
		j := jobs[r.GetTaskId()]
		switch {
		case j == nil:
		case r.GetOutcome() == taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST:
			if r.GetReason() != "" {
				w.cancelRun(j, r.GetReason()) // the server ended the task: nobody goes on with the run
			}
			j.cancel()
		case r.GetCancelRequested():
			w.cancelRun(j, "the task was cancelled")
		}
	}
}

// cancelRun asks the task's run to stop; its end ends the task.
func (w *Worker) cancelRun(j *job, reason string) {
	j.mu.Lock()
	ctx, id, done := j.identity, j.run, j.cancelled
	j.cancelled = ctx != nil
	j.mu.Unlock()
	if ctx == nil || done {
		return
	}
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
		defer cancel()
		if _, err := w.runs.Cancel(ctx, id, reason); err != nil {
			w.cfg.Log.Warn("the run of a cancelled task could not be cancelled", "task", j.task.GetId(), "error", err)
			j.mu.Lock()
			j.cancelled = false // with the next heartbeat
			j.mu.Unlock()
		}
	})
}
