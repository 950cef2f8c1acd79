package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

const (
	defaultPage = 50
	listedText  = 1 << 10
)

// CreateTask stores a task.
func (s *Server) CreateTask(ctx context.Context, r *taskv1.CreateTaskRequest) (*taskv1.CreateTaskResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	if err := bounded("input", r.GetInput()); err != nil {
		return nil, err
	}
	n := c.new(r.GetRequestId(), "CreateTask", r)
	n.Kind, n.Queue, n.Capability, n.Label, n.Input = r.GetKind(), r.GetQueue(), r.GetCapability(), r.GetLabel(), fromInput(r.GetInput())
	n.ParentID, n.Delivery, n.MaxAttempts, n.Priority = r.GetParentTaskId(), task.Delivery(r.GetDeliveryMode()), int(r.GetMaxAttempts()), int(r.GetPriority())
	n.Backoff = task.Backoff{Initial: fromDuration(r.GetBackoff().GetInitial(), 0), Max: fromDuration(r.GetBackoff().GetMax(), 0)}
	n.NotBefore, n.Deadline, n.Timeout = fromTime(r.GetNotBeforeTime()), fromTime(r.GetDeadlineTime()), fromDuration(r.GetTimeout(), 0)
	n.Budget, n.Annotations = fromBudget(r.GetBudget()), r.GetAnnotations()
	if n.ParentThread, err = fromThread(r.GetParentThread(), c.identity.Tenant); err != nil {
		return nil, err
	}
	if n.ChildThread, err = fromThread(r.GetChildThread(), c.identity.Tenant); err != nil {
		return nil, err
	}
	// A client may not have work done in a thread of an agent that its own credential does not allow. Other services name the agents that they run.
	if child := n.ChildThread; child != (identity.Thread{}) && !c.grant.Internal() && !c.grant.AllowsAgent(child.Agent) {
		return nil, task.Errorf(errdefs.ErrPermissionDenied, task.ReasonThreadNotAllowed, "the credential does not allow the agent of the thread").With("field", "child_thread")
	}
	created, err := s.engine.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	return &taskv1.CreateTaskResponse{Task: bare(created.Task), Duplicate: created.Duplicate}, nil
}

// new begins a creation on behalf of the caller.
func (c caller) new(requestID, method string, request proto.Message) task.New {
	return task.New{Identity: c.identity, Bucket: c.bucket, Grant: toGrant(c.grant), RequestID: requestID, Call: callOf(c.identity, method, request)}
}

// GetTask returns one task.
func (s *Server) GetTask(ctx context.Context, r *taskv1.GetTaskRequest) (*taskv1.GetTaskResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.engine.Get(ctx, c.viewer, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &taskv1.GetTaskResponse{Task: toTask(&found.Task), Cursor: encodeCursor(found.Cursor)}, nil
}

// ListTasks returns a page.
func (s *Server) ListTasks(ctx context.Context, r *taskv1.ListTasksRequest) (*taskv1.ListTasksResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	filter := proto.CloneOf(r)
	filter.PageSize, filter.PageToken = 0, ""
	before, err := decodePage(r.GetPageToken(), filter)
	if err != nil {
		return nil, err
	}
	q := task.Query{
		States: fromStates(r.GetStates()), Label: r.GetLabel(), ParentID: r.GetParentTaskId(), RootID: r.GetRootTaskId(), Kind: r.GetKind(),
		ScheduleID: r.GetScheduleId(), Before: before, Limit: int(r.GetPageSize()), Parts: task.WithResult,
	}
	if q.Limit == 0 {
		q.Limit = defaultPage
	}
	if session := r.GetParentSession(); session != "" {
		if err := identity.ValidateID("parent_session", session); err != nil {
			return nil, err
		}
		q.ParentThread = identity.Thread{Tenant: c.identity.Tenant, Agent: c.identity.Agent, User: c.identity.User, Session: session}.Key()
	}
	listed, err := s.engine.List(ctx, c.viewer, q)
	if err != nil {
		return nil, err
	}
	out := &taskv1.ListTasksResponse{Cursor: encodeCursor(listed.Cursor)}
	for i := range listed.Tasks {
		t := &listed.Tasks[i]
		if t.Result != nil {
			t.Result.Text, t.Result.Truncated = clip(t.Result.Text, listedText, t.Result.Truncated)
		}
		out.Tasks = append(out.Tasks, toTask(t))
	}
	if listed.More {
		out.NextPageToken = encodePage(filter, listed.Tasks[len(listed.Tasks)-1].Seq)
	}
	return out, nil
}

// CancelTask asks a task to end.
func (s *Server) CancelTask(ctx context.Context, r *taskv1.CancelTaskRequest) (*taskv1.CancelTaskResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.engine.Cancel(ctx, c.viewer, c.bucket, r.GetTaskId(), callOf(c.identity, "CancelTask", r), r.GetReason())
	if err != nil {
		return nil, err
	}
	return &taskv1.CancelTaskResponse{
		Task: bare(out.Task), Requested: out.Requested, Stopped: out.Stopped,
		DescendantsRequested: int32(out.BelowRequested), DescendantsStopped: int32(out.BelowStopped),
	}, nil
}

// RespondTask answers interactions.
func (s *Server) RespondTask(ctx context.Context, r *taskv1.RespondTaskRequest) (*taskv1.RespondTaskResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	if err := bounded("answers", r); err != nil {
		return nil, err
	}
	answers := make([]task.Answer, 0, len(r.GetAnswers()))
	seen := make(map[string]bool)
	for _, a := range r.GetAnswers() {
		if seen[a.GetInteractionId()] {
			return nil, invalidField("answers", "an interaction is answered twice")
		}
		seen[a.GetInteractionId()] = true
		answers = append(answers, task.Answer{
			InteractionID: a.GetInteractionId(), Decision: a.GetDecision(), Texts: a.GetTexts(), Data: wire(a.GetData()), Actor: c.identity.User,
		})
	}
	t, err := s.engine.Respond(ctx, c.viewer, c.bucket, r.GetTaskId(), callOf(c.identity, "RespondTask", r), answers)
	if err != nil {
		return nil, err
	}
	return &taskv1.RespondTaskResponse{Task: bare(t)}, nil
}

// RetryTask makes a new task from one that ended.
func (s *Server) RetryTask(ctx context.Context, r *taskv1.RetryTaskRequest) (*taskv1.RetryTaskResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	n := c.new(r.GetRequestId(), "RetryTask", r)
	n.Timeout = fromDuration(r.GetTimeout(), 0)
	created, err := s.engine.Retry(ctx, c.viewer, r.GetTaskId(), n)
	if err != nil {
		return nil, err
	}
	return &taskv1.RetryTaskResponse{Task: bare(created.Task), Duplicate: created.Duplicate}, nil
}

// PurgeTasks removes ended tasks.
func (s *Server) PurgeTasks(ctx context.Context, r *taskv1.PurgeTasksRequest) (*taskv1.PurgeTasksResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.engine.Purge(ctx, c.viewer, c.bucket, callOf(c.identity, "PurgeTasks", r), task.PurgeSpec{
		IDs: r.GetTaskIds(), EndedBefore: fromTime(r.GetEndedBeforeTime()), Keep: int(r.GetKeepNewest()),
	})
	if err != nil {
		return nil, err
	}
	return &taskv1.PurgeTasksResponse{Purged: int32(out.Purged), Kept: int32(out.Kept), More: out.More}, nil
}

// answerMargin is how long before the deadline of a call a wait answers, so that the answer still arrives.
const answerMargin = 200 * time.Millisecond

// waitFor returns how long a call may wait: as asked, but never into the deadline of the call.
func waitFor(ctx context.Context, asked time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		asked = min(asked, left-min(answerMargin, left/4))
	}
	return max(asked, 0)
}
