package inmemory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

const taskDomain = "gantry.task.v1"

// Tasks implements as much of TaskService as runs and workers need.
type Tasks struct {
	taskv1.UnimplementedTaskServiceServer
	threads *Threads

	mu       sync.Mutex
	changed  chan struct{}
	tasks    map[string]*taskv1.Task
	order    []string
	byEffect map[string]string
	expiry   map[string]time.Time
	parked   map[string]bool
	token    int64
}

// NewTasks makes an empty queue that delivers into the mailboxes of threads.
func NewTasks(threads *Threads) *Tasks {
	return &Tasks{threads: threads, changed: make(chan struct{}), tasks: map[string]*taskv1.Task{}, byEffect: map[string]string{}, expiry: map[string]time.Time{}, parked: map[string]bool{}}
}

func (s *Tasks) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// All returns copies of all tasks in order of creation.
func (s *Tasks) All() []*taskv1.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*taskv1.Task
	for _, id := range s.order {
		out = append(out, proto.CloneOf(s.tasks[id]))
	}
	return out
}

func (s *Tasks) CreateTask(ctx context.Context, req *taskv1.CreateTaskRequest) (*taskv1.CreateTaskResponse, error) {
	id, _ := identity.FromContext(ctx)
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if had, ok := s.byEffect[bucket.Key()+id.Effect]; ok && id.Effect != "" {
		return &taskv1.CreateTaskResponse{Task: proto.CloneOf(s.tasks[had]), Duplicate: true}, nil
	}
	t := &taskv1.Task{
		Id: fmt.Sprintf("t_%026d", len(s.order)+1), Kind: req.GetKind(), Queue: req.GetQueue(), State: taskv1.TaskState_TASK_STATE_PENDING, Label: req.GetLabel(), Input: req.GetInput(),
		Identity: &commonv1.Identity{Tenant: id.Tenant, Agent: id.Agent, User: id.User, Session: id.Session, Scope: scopeOf(id.Scope)}, Bucket: bucket.Key(),
		ParentThread: req.GetParentThread(), ChildThread: req.GetChildThread(), DeliveryMode: req.GetDeliveryMode(), ParentTaskId: req.GetParentTaskId(), CreateTime: timestamppb.Now(),
	}
	s.tasks[t.Id] = t
	s.order = append(s.order, t.Id)
	s.byEffect[bucket.Key()+id.Effect] = t.Id
	s.wake()
	return &taskv1.CreateTaskResponse{Task: proto.CloneOf(t)}, nil
}

func scopeOf(s identity.Scope) commonv1.Scope {
	return map[identity.Scope]commonv1.Scope{
		identity.ScopeUser: commonv1.Scope_SCOPE_USER, identity.ScopeSession: commonv1.Scope_SCOPE_SESSION, identity.ScopeAgent: commonv1.Scope_SCOPE_AGENT, identity.ScopeGlobal: commonv1.Scope_SCOPE_GLOBAL,
	}[s]
}

func (s *Tasks) LeaseTasks(ctx context.Context, req *taskv1.LeaseTasksRequest) (*taskv1.LeaseTasksResponse, error) {
	deadline := time.Now().Add(req.GetMaxWait().AsDuration())
	who, _ := identity.FromContext(ctx)
	for {
		s.mu.Lock()
		resp := &taskv1.LeaseTasksResponse{}
		for _, id := range s.order {
			t := s.tasks[id]
			lost := t.GetState() == taskv1.TaskState_TASK_STATE_RUNNING && time.Now().After(s.expiry[id])
			if t.GetIdentity().GetTenant() == who.Tenant && t.GetQueue() == req.GetQueue() && (t.GetState() == taskv1.TaskState_TASK_STATE_PENDING || lost) && len(resp.Tasks) < int(max(req.GetMaxTasks(), 1)) {
				s.token++
				parked := s.parked[id] // the attempt that waited goes on
				delete(s.parked, id)
				if t.State = taskv1.TaskState_TASK_STATE_RUNNING; !parked {
					t.Attempts++
				}
				t.Lease = &taskv1.Lease{WorkerId: req.GetWorkerId(), FencingToken: s.token, Duration: req.GetLeaseDuration(), Resumed: lost || parked}
				s.expiry[id] = time.Now().Add(req.GetLeaseDuration().AsDuration())
				resp.Tasks = append(resp.Tasks, proto.CloneOf(t))
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if len(resp.Tasks) > 0 || !time.Now().Before(deadline) {
			return resp, nil
		}
		if !await(ctx, changed, min(time.Until(deadline), 50*time.Millisecond)) && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *Tasks) HeartbeatTasks(_ context.Context, req *taskv1.HeartbeatTasksRequest) (*taskv1.HeartbeatTasksResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &taskv1.HeartbeatTasksResponse{}
	for _, h := range req.GetHeartbeats() {
		t := s.tasks[h.GetTaskId()]
		r := &taskv1.HeartbeatResult{TaskId: h.GetTaskId(), Outcome: taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_LOST, State: t.GetState()}
		if s.holds(t, req.GetWorkerId(), h.GetFencingToken()) {
			r.Outcome, r.CancelRequested = taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RENEWED, t.GetCancelRequested()
			s.expiry[t.Id] = time.Now().Add(t.GetLease().GetDuration().AsDuration())
			if h.GetRelease() {
				t.State, t.Lease = taskv1.TaskState_TASK_STATE_PENDING, nil
				r.Outcome = taskv1.HeartbeatOutcome_HEARTBEAT_OUTCOME_RELEASED
				s.wake()
			}
		}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

func (s *Tasks) holds(t *taskv1.Task, worker string, token int64) bool {
	return t.GetState() == taskv1.TaskState_TASK_STATE_RUNNING && t.GetLease().GetWorkerId() == worker && t.GetLease().GetFencingToken() == token
}

func (s *Tasks) report(id, worker string, token int64, change func(*taskv1.Task)) (*taskv1.Task, error) {
	s.mu.Lock()
	t := s.tasks[id]
	if !s.holds(t, worker, token) {
		s.mu.Unlock()
		return nil, errdefs.New(errdefs.ErrAborted, taskDomain, "LEASE_LOST", "the worker does not hold the task")
	}
	t.Lease = nil
	change(t)
	s.wake()
	out := proto.CloneOf(t)
	s.mu.Unlock()
	s.deliver(out)
	return out, nil
}

func ended(t *taskv1.Task) bool {
	switch t.GetState() {
	case taskv1.TaskState_TASK_STATE_COMPLETED, taskv1.TaskState_TASK_STATE_FAILED, taskv1.TaskState_TASK_STATE_CANCELLED, taskv1.TaskState_TASK_STATE_PARTIAL:
		return true
	}
	return false
}

func (s *Tasks) deliver(t *taskv1.Task) {
	if !ended(t) || t.GetParentThread() == nil {
		return
	}
	payload, _ := proto.Marshal(&taskv1.TaskDelivery{TaskId: t.GetId(), Kind: t.GetKind(), Label: t.GetLabel(), State: t.GetState(), Result: t.GetResult(), Error: t.GetError(), ChildThread: t.GetChildThread()})
	p := t.GetParentThread()
	_, _ = s.threads.PostTo(identity.Thread{Tenant: p.GetTenant(), Agent: p.GetAgent(), User: p.GetUser(), Session: p.GetSession()}, &threadv1.Mail{
		MessageId: "task/" + t.GetId(), Kind: "task_result", Payload: payload, Wake: t.GetDeliveryMode() == taskv1.DeliveryMode_DELIVERY_MODE_WAKE,
	})
}

func (s *Tasks) CompleteTask(_ context.Context, req *taskv1.CompleteTaskRequest) (*taskv1.CompleteTaskResponse, error) {
	t, err := s.report(req.GetTaskId(), req.GetWorkerId(), req.GetFencingToken(), func(t *taskv1.Task) {
		t.State, t.Result, t.EndTime = taskv1.TaskState_TASK_STATE_COMPLETED, req.GetResult(), timestamppb.Now()
	})
	return &taskv1.CompleteTaskResponse{Task: t}, err
}

func (s *Tasks) FailTask(_ context.Context, req *taskv1.FailTaskRequest) (*taskv1.FailTaskResponse, error) {
	t, err := s.report(req.GetTaskId(), req.GetWorkerId(), req.GetFencingToken(), func(t *taskv1.Task) {
		t.State, t.Error, t.EndTime = taskv1.TaskState_TASK_STATE_FAILED, req.GetError(), timestamppb.Now()
		switch {
		case t.GetCancelRequested():
			t.State = taskv1.TaskState_TASK_STATE_CANCELLED
		case req.GetError().GetRetryable() && t.GetAttempts() < 3:
			t.State = taskv1.TaskState_TASK_STATE_PENDING
		case req.GetPartialResult().GetText() != "":
			t.State, t.Result = taskv1.TaskState_TASK_STATE_PARTIAL, req.GetPartialResult()
		}
	})
	return &taskv1.FailTaskResponse{Task: t}, err
}

func (s *Tasks) SuspendTask(_ context.Context, req *taskv1.SuspendTaskRequest) (*taskv1.SuspendTaskResponse, error) {
	t, err := s.report(req.GetTaskId(), req.GetWorkerId(), req.GetFencingToken(), func(t *taskv1.Task) {
		t.State, t.Waiting = taskv1.TaskState_TASK_STATE_WAITING, req.GetWaiting()
		s.parked[t.GetId()] = true
	})
	return &taskv1.SuspendTaskResponse{Task: t}, err
}

func (s *Tasks) RespondTask(ctx context.Context, req *taskv1.RespondTaskRequest) (*taskv1.RespondTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	if t.GetState() != taskv1.TaskState_TASK_STATE_WAITING {
		return nil, errdefs.New(errdefs.ErrNotFound, taskDomain, "INTERACTION_NOT_FOUND", "the task waits for nothing")
	}
	t.Answers = append(t.Answers, req.GetAnswers()...)
	t.State, t.Waiting = taskv1.TaskState_TASK_STATE_PENDING, nil
	s.wake()
	return &taskv1.RespondTaskResponse{Task: proto.CloneOf(t)}, nil
}

func (s *Tasks) find(id string) (*taskv1.Task, error) {
	t := s.tasks[id]
	if t == nil {
		return nil, errdefs.New(errdefs.ErrNotFound, taskDomain, "TASK_NOT_FOUND", "no such task").With("task_id", id)
	}
	return t, nil
}

func (s *Tasks) GetTask(_ context.Context, req *taskv1.GetTaskRequest) (*taskv1.GetTaskResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &taskv1.GetTaskResponse{Task: proto.CloneOf(t)}, nil
}

func (s *Tasks) CancelTask(_ context.Context, req *taskv1.CancelTaskRequest) (*taskv1.CancelTaskResponse, error) {
	s.mu.Lock()
	t, err := s.find(req.GetTaskId())
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	resp := &taskv1.CancelTaskResponse{Requested: !ended(t) || t.GetState() == taskv1.TaskState_TASK_STATE_CANCELLED}
	if !ended(t) {
		t.CancelRequested = true
		if t.GetState() != taskv1.TaskState_TASK_STATE_RUNNING {
			t.State = taskv1.TaskState_TASK_STATE_CANCELLED
		}
	}
	resp.Task, resp.Stopped = proto.CloneOf(t), ended(t)
	s.wake()
	s.mu.Unlock()
	s.deliver(resp.Task)
	return resp, nil
}

func (s *Tasks) WaitTasks(ctx context.Context, req *taskv1.WaitTasksRequest) (*taskv1.WaitTasksResponse, error) {
	deadline := time.Now().Add(req.GetMaxWait().AsDuration())
	for {
		s.mu.Lock()
		resp, done := &taskv1.WaitTasksResponse{}, 0
		for _, id := range req.GetTaskIds() {
			t, err := s.find(id)
			if err != nil {
				s.mu.Unlock()
				return nil, err
			}
			if ended(t) || req.GetReturnOnWaiting() && t.GetState() == taskv1.TaskState_TASK_STATE_WAITING {
				done++
			}
			resp.Tasks = append(resp.Tasks, proto.CloneOf(t))
		}
		changed := s.changed
		s.mu.Unlock()
		if done == len(req.GetTaskIds()) || !time.Now().Before(deadline) {
			return resp, nil
		}
		if !await(ctx, changed, time.Until(deadline)) && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (s *Tasks) ListTasks(_ context.Context, _ *taskv1.ListTasksRequest) (*taskv1.ListTasksResponse, error) {
	tasks := s.All()
	slices.Reverse(tasks)
	return &taskv1.ListTasksResponse{Tasks: tasks}, nil
}
