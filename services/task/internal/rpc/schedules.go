package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// maxAnnotationBytes bounds the annotations of a schedule.
const maxAnnotationBytes = 4 << 10

// CreateSchedule stores a schedule.
func (s *Server) CreateSchedule(ctx context.Context, r *taskv1.CreateScheduleRequest) (*taskv1.CreateScheduleResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	schedule, err := c.schedule(r.GetSchedule())
	if err != nil {
		return nil, err
	}
	made, err := s.engine.CreateSchedule(ctx, schedule, r.GetRequestId(), callOf(c.identity, "CreateSchedule", r))
	if err != nil {
		return nil, err
	}
	return &taskv1.CreateScheduleResponse{Schedule: toSchedule(made.Schedule), Duplicate: made.Duplicate}, nil
}

// GetSchedule returns one schedule.
func (s *Server) GetSchedule(ctx context.Context, r *taskv1.GetScheduleRequest) (*taskv1.GetScheduleResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.engine.GetSchedule(ctx, c.viewer, r.GetScheduleId())
	if err != nil {
		return nil, err
	}
	return &taskv1.GetScheduleResponse{Schedule: toSchedule(found)}, nil
}

// ListSchedules returns a page.
func (s *Server) ListSchedules(ctx context.Context, r *taskv1.ListSchedulesRequest) (*taskv1.ListSchedulesResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	filter := &taskv1.ListSchedulesRequest{}
	before, err := decodePage(r.GetPageToken(), filter)
	if err != nil {
		return nil, err
	}
	limit := int(r.GetPageSize())
	if limit == 0 {
		limit = defaultPage
	}
	page, more, err := s.engine.ListSchedules(ctx, c.viewer, before, limit)
	if err != nil {
		return nil, err
	}
	out := &taskv1.ListSchedulesResponse{}
	for _, schedule := range page {
		out.Schedules = append(out.Schedules, toSchedule(schedule))
	}
	if more {
		out.NextPageToken = encodePage(filter, page[len(page)-1].Seq)
	}
	return out, nil
}

// UpdateSchedule replaces a schedule.
func (s *Server) UpdateSchedule(ctx context.Context, r *taskv1.UpdateScheduleRequest) (*taskv1.UpdateScheduleResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	next, err := c.schedule(r.GetSchedule())
	if err != nil {
		return nil, err
	}
	stored, err := s.engine.UpdateSchedule(ctx, c.viewer, c.bucket, r.GetScheduleId(), callOf(c.identity, "UpdateSchedule", r), next, r.GetIfRevision())
	if err != nil {
		return nil, err
	}
	return &taskv1.UpdateScheduleResponse{Schedule: toSchedule(stored)}, nil
}

// DeleteSchedule removes a schedule.
func (s *Server) DeleteSchedule(ctx context.Context, r *taskv1.DeleteScheduleRequest) (*taskv1.DeleteScheduleResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.engine.DeleteSchedule(ctx, c.viewer, c.bucket, r.GetScheduleId(), callOf(c.identity, "DeleteSchedule", r)); err != nil {
		return nil, err
	}
	return &taskv1.DeleteScheduleResponse{}, nil
}

// RunScheduleNow fires a schedule beside its plan.
func (s *Server) RunScheduleNow(ctx context.Context, r *taskv1.RunScheduleNowRequest) (*taskv1.RunScheduleNowResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	created, err := s.engine.RunSchedule(ctx, c.viewer, r.GetScheduleId(), r.GetRequestId(), callOf(c.identity, "RunScheduleNow", r))
	if err != nil {
		return nil, err
	}
	return &taskv1.RunScheduleNowResponse{Task: bare(created.Task)}, nil
}

// schedule reads what a client may set, with the caller's identity for the tasks.
func (c caller) schedule(in *taskv1.Schedule) (task.Schedule, error) {
	t := in.GetTemplate()
	if t.GetKind() == "" {
		return task.Schedule{}, invalidField("schedule.template.kind", "a schedule needs a kind of task")
	}
	if err := bounded("schedule.template.input", t.GetInput()); err != nil {
		return task.Schedule{}, err
	}
	annotations := wire(in.GetAnnotations())
	if len(annotations) > maxAnnotationBytes {
		return task.Schedule{}, invalidField("schedule.annotations", "more than 4 KiB")
	}
	thread, err := fromThread(t.GetParentThread(), c.identity.Tenant)
	if err != nil {
		return task.Schedule{}, err
	}
	id := c.identity
	id.RequestID, id.Effect, id.Sandbox = "", "", ""
	return task.Schedule{
		Identity: id, Bucket: c.bucket, Grant: toGrant(c.grant), Label: in.GetLabel(), Cron: in.GetCron(), Interval: fromDuration(in.GetInterval(), 0),
		Zone: in.GetTimeZone(), SkipMissed: in.GetMisfirePolicy() == taskv1.MisfirePolicy_MISFIRE_POLICY_SKIP,
		Overlap: in.GetOverlapPolicy() == taskv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, Paused: in.GetPaused(), Annotations: annotations,
		Template: task.Template{
			Kind: t.GetKind(), Queue: t.GetQueue(), Capability: t.GetCapability(), Label: t.GetLabel(), Input: fromInput(t.GetInput()), ParentThread: thread,
			Delivery: task.Delivery(t.GetDeliveryMode()), MaxAttempts: int(t.GetMaxAttempts()), Timeout: fromDuration(t.GetTimeout(), 0),
			Budget: fromBudget(t.GetBudget()), Priority: int(t.GetPriority()),
		},
	}, nil
}

func toSchedule(s task.Schedule) *taskv1.Schedule {
	t := s.Template
	out := &taskv1.Schedule{
		Id: s.ID, Label: s.Label, TimeZone: s.Zone, Paused: s.Paused, Identity: toIdentity(s.Identity), NextFireTime: toTime(s.Next), LastFireTime: toTime(s.Last),
		LastTaskId: s.LastTaskID, FiredCount: s.Fired, SkippedCount: s.Skipped, CreateTime: toTime(s.CreateTime), UpdateTime: toTime(s.UpdateTime),
		Revision: s.Revision, Annotations: toStruct(s.Annotations),
		MisfirePolicy: taskv1.MisfirePolicy_MISFIRE_POLICY_ONCE, OverlapPolicy: taskv1.OverlapPolicy_OVERLAP_POLICY_SKIP,
		Template: &taskv1.TaskTemplate{
			Kind: t.Kind, Queue: t.Queue, Capability: t.Capability, Label: t.Label, Input: toInput(t.Input), ParentThread: toThread(t.ParentThread),
			DeliveryMode: taskv1.DeliveryMode(t.Delivery), MaxAttempts: int32(t.MaxAttempts), Priority: int32(t.Priority),
			Budget: &taskv1.Budget{Steps: t.Budget.Steps, Tokens: t.Budget.Tokens, CostMicros: t.Budget.CostMicros},
		},
	}
	if t.Timeout > 0 {
		out.Template.Timeout = durationpb.New(t.Timeout)
	}
	if s.SkipMissed {
		out.MisfirePolicy = taskv1.MisfirePolicy_MISFIRE_POLICY_SKIP
	}
	if s.Overlap {
		out.OverlapPolicy = taskv1.OverlapPolicy_OVERLAP_POLICY_ALLOW
	}
	if s.Cron != "" {
		out.When = &taskv1.Schedule_Cron{Cron: s.Cron}
	} else {
		out.When = &taskv1.Schedule_Interval{Interval: durationpb.New(s.Interval)}
	}
	return out
}
