package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

const (
	defaultLease     = 5 * time.Second
	defaultLeaseWait = 10 * time.Second
)

// LeaseTasks hands out tasks, and waits for some.
func (s *Server) LeaseTasks(ctx context.Context, r *taskv1.LeaseTasksRequest) (*taskv1.LeaseTasksResponse, error) {
	v, _, err := worker(ctx)
	if err != nil {
		return nil, err
	}
	if grant, ok := access.FromContext(ctx); ok && ofRun(grant) {
		return nil, task.Errorf(errdefs.ErrPermissionDenied, task.ReasonWorkerNotAllowed, "the capability of a run can't lease tasks").With("run", grant.Run)
	}
	claim := task.Claim{
		Tenant: v.Tenant, Worker: r.GetWorkerId(), Queue: r.GetQueue(), Capabilities: r.GetCapabilities(),
		Max: max(int(r.GetMaxTasks()), 1), Life: fromDuration(r.GetLeaseDuration(), defaultLease),
	}
	if claim.Queue == "" {
		claim.Queue = task.DefaultQueue
	}
	leased, err := s.lease(ctx, claim, waitFor(ctx, fromDuration(r.GetMaxWait(), defaultLeaseWait)))
	if err != nil {
		return nil, err
	}
	out := &taskv1.LeaseTasksResponse{}
	for i := range leased {
		out.Tasks = append(out.Tasks, toTask(&leased[i]))
	}
	return out, nil
}

// lease tries until there is something, the time is up, or the server stops.
func (s *Server) lease(ctx context.Context, claim task.Claim, wait time.Duration) ([]task.Task, error) {
	if wait <= 0 {
		return s.engine.Lease(ctx, claim)
	}
	waiter, err := s.hub.WaitForWork(claim.Tenant, claim.Queue, claim.Capabilities)
	if err != nil {
		return nil, err
	}
	defer waiter.Leave()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		waiter.Looked()
		leased, err := s.engine.Lease(ctx, claim)
		if err != nil {
			waiter.Failed()
			return nil, err
		}
		if len(leased) > 0 {
			return leased, nil
		}
		select {
		case <-waiter.C:
		case <-timer.C:
			return nil, nil
		case <-s.hub.Done():
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// HeartbeatTasks renews leases.
func (s *Server) HeartbeatTasks(ctx context.Context, r *taskv1.HeartbeatTasksRequest) (*taskv1.HeartbeatTasksResponse, error) {
	v, id, err := worker(ctx)
	if err != nil {
		return nil, err
	}
	beats := make([]task.Beat, 0, len(r.GetHeartbeats()))
	for _, h := range r.GetHeartbeats() {
		thread, err := fromThread(h.GetChildThread(), id.Tenant)
		if err != nil {
			return nil, err
		}
		beats = append(beats, task.Beat{
			TaskID: h.GetTaskId(), Token: h.GetFencingToken(), Progress: fromProgress(h.GetProgress()), ChildThread: thread, Release: h.GetRelease(),
		})
	}
	results, err := s.engine.Heartbeat(ctx, v, r.GetWorkerId(), beats)
	if err != nil {
		return nil, err
	}
	out := &taskv1.HeartbeatTasksResponse{}
	for _, b := range results {
		out.Results = append(out.Results, toBeatResult(b))
	}
	return out, nil
}

func toBeatResult(b task.BeatResult) *taskv1.HeartbeatResult {
	out := &taskv1.HeartbeatResult{
		TaskId: b.TaskID, Outcome: taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RENEWED, CancelRequested: b.CancelRequested,
		State: taskv1.TaskState(b.State), Reason: b.Reason,
	}
	switch {
	case b.Lost:
		out.Outcome = taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST
	case b.Released:
		out.Outcome = taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RELEASED
	default:
		out.LeaseExpireTime = timestamppb.New(b.LeaseExpire)
	}
	return out
}

// CompleteTask reports a finish.
func (s *Server) CompleteTask(ctx context.Context, r *taskv1.CompleteTaskRequest) (*taskv1.CompleteTaskResponse, error) {
	v, id, err := worker(ctx)
	if err != nil {
		return nil, err
	}
	if err := bounded("result", r.GetResult()); err != nil {
		return nil, err
	}
	call := callOf(id, "CompleteTask", r)
	t, err := s.engine.Report(ctx, v, r.GetTaskId(), call, task.Finished{
		By: task.Holder{Worker: r.GetWorkerId(), Token: r.GetFencingToken()}, Call: call.Hash, Result: fromResult(r.GetResult()), Progress: fromProgress(r.GetProgress()),
	})
	if err != nil {
		return nil, err
	}
	return &taskv1.CompleteTaskResponse{Task: bare(t)}, nil
}

// FailTask reports a failure.
func (s *Server) FailTask(ctx context.Context, r *taskv1.FailTaskRequest) (*taskv1.FailTaskResponse, error) {
	v, id, err := worker(ctx)
	if err != nil {
		return nil, err
	}
	if err := bounded("partial_result", r.GetPartialResult()); err != nil {
		return nil, err
	}
	call := callOf(id, "FailTask", r)
	t, err := s.engine.Report(ctx, v, r.GetTaskId(), call, task.Broke{
		By: task.Holder{Worker: r.GetWorkerId(), Token: r.GetFencingToken()}, Call: call.Hash, Fault: fromFault(r.GetError()),
		Partial: fromResult(r.GetPartialResult()), RetryAfter: fromDuration(r.GetRetryAfter(), 0), Progress: fromProgress(r.GetProgress()),
	})
	if err != nil {
		return nil, err
	}
	return &taskv1.FailTaskResponse{Task: bare(t)}, nil
}

// SuspendTask parks a task.
func (s *Server) SuspendTask(ctx context.Context, r *taskv1.SuspendTaskRequest) (*taskv1.SuspendTaskResponse, error) {
	v, id, err := worker(ctx)
	if err != nil {
		return nil, err
	}
	if err := bounded("waiting", r.GetWaiting()); err != nil {
		return nil, err
	}
	waiting, err := fromWaiting(r.GetWaiting())
	if err != nil {
		return nil, err
	}
	call := callOf(id, "SuspendTask", r)
	t, err := s.engine.Report(ctx, v, r.GetTaskId(), call, task.Suspended{
		By: task.Holder{Worker: r.GetWorkerId(), Token: r.GetFencingToken()}, Call: call.Hash, For: waiting, Progress: fromProgress(r.GetProgress()),
	})
	if err != nil {
		return nil, err
	}
	return &taskv1.SuspendTaskResponse{Task: bare(t)}, nil
}
