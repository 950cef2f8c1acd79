package task

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// misfireAfter is how late a firing may be before it counts as missed.
const misfireAfter = time.Minute

// cronParser reads five fields and the names of common plans.
var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// NextAfter returns the first firing after a time, by the plan alone. Zero: it never fires again.
func (s *Schedule) NextAfter(at time.Time) (time.Time, error) {
	bad := func(problem string) error {
		return Errorf(errdefs.ErrInvalidArgument, ReasonScheduleInvalid, "the schedule can't be read: %s", problem).With("cron", s.Cron).With("problem", problem)
	}
	if (s.Cron == "") == (s.Interval == 0) {
		return time.Time{}, bad("one of cron and interval must be given")
	}
	zone, err := time.LoadLocation(s.Zone)
	if err != nil || s.Zone == "Local" {
		return time.Time{}, bad("no time zone " + strconv.Quote(s.Zone))
	}
	if s.Interval > 0 {
		passed := at.Sub(s.CreateTime) / s.Interval
		return s.CreateTime.Add((max(passed, 0) + 1) * s.Interval), nil
	}
	// The parser also knows a zone before the fields and "@every"; both are said in fields of their own here.
	if strings.Contains(s.Cron, "TZ=") || strings.HasPrefix(s.Cron, "@every") {
		return time.Time{}, bad("use time_zone and interval")
	}
	plan, err := cronParser.Parse(s.Cron)
	if err != nil {
		return time.Time{}, bad(err.Error())
	}
	next := plan.Next(at.In(zone))
	if next.IsZero() {
		return time.Time{}, bad("it never fires")
	}
	return next.UTC(), nil
}

// plan sets the next firing.
func (s *Schedule) plan(now time.Time) error {
	next, err := s.NextAfter(now)
	if err != nil {
		return err
	}
	if s.Paused {
		next = time.Time{}
	}
	s.Next = next
	return nil
}

// New returns the task that the schedule creates.
func (s *Schedule) New() New {
	t := s.Template
	return New{
		Identity: s.Identity, Bucket: s.Bucket, Grant: s.Grant, Kind: t.Kind, Queue: t.Queue, Capability: t.Capability, Label: t.Label, Input: t.Input,
		ParentThread: t.ParentThread, Delivery: t.Delivery, MaxAttempts: t.MaxAttempts, Timeout: t.Timeout, Budget: t.Budget, Priority: t.Priority, ScheduleID: s.ID,
	}
}

// fire does what a due schedule asks for, and plans the next firing. What goes wrong with the task is counted, so that one bad schedule does not stop the others.
func (w *work) fire(s *Schedule) error {
	at := s.Next
	missed := w.now.Sub(at) > misfireAfter && s.SkipMissed
	if err := s.plan(w.now); err != nil {
		s.Next, s.Paused = time.Time{}, true
	}
	busy := false
	if !s.Overlap && s.LastTaskID != "" {
		last, err := w.Task(s.Tenant, s.LastTaskID, Bare)
		if err != nil && err != ErrNoRow {
			return err
		}
		busy = err == nil && last.Live()
	}
	if missed || busy {
		s.Skipped++
		return w.saveSchedule(s)
	}
	n := s.New()
	// Equal firings make equal ids: replicas that fire at once make one task.
	n.RequestID = "schedule/" + s.ID + "/" + strconv.FormatInt(at.UnixMicro(), 36)
	created, err := w.create(n)
	switch {
	case err == nil:
		s.Fired++
		s.Last, s.LastTaskID = w.now, created.Task.ID
	case errdefs.ReasonOf(err) == "" || errors.Is(err, errdefs.ErrUnavailable):
		return err
	default:
		s.Skipped++
	}
	return w.saveSchedule(s)
}

func (w *work) saveSchedule(s *Schedule) error {
	if !s.Next.IsZero() {
		w.Signal(Signal{Kind: SignalWake, Tenant: s.Tenant, Time: s.Next})
	}
	return w.SaveSchedule(s)
}

// ScheduleMade is the outcome of a creation.
type ScheduleMade struct {
	Schedule  Schedule
	Duplicate bool
}

// CreateSchedule stores a schedule. Identity, Bucket and Grant are those of the call.
func (e *Engine) CreateSchedule(ctx context.Context, s Schedule, requestID string, c Call) (ScheduleMade, error) {
	return update(ctx, e, func(w *work) (ScheduleMade, error) {
		owner, err := OwnerKey(s.Identity)
		if err != nil {
			return ScheduleMade{}, err
		}
		s.Owner = owner
		fresh := false
		made, err := once(w, s.Bucket, c, func() (ScheduleMade, error) {
			fresh = true
			return w.createSchedule(s, requestID, c)
		})
		made.Duplicate = made.Duplicate || (err == nil && !fresh)
		return made, err
	})
}

func (w *work) createSchedule(s Schedule, requestID string, c Call) (ScheduleMade, error) {
	switch {
	case c.Effect != "":
		s.ID = newID("s_", "effect", s.Bucket, c.Effect)
	case requestID != "":
		s.ID = newID("s_", "request", s.Owner, requestID)
	default:
		s.ID = newID("s_")
	}
	s.Tenant, s.Request = s.Identity.Tenant, RequestMark{ID: requestID, Hash: c.Hash}
	switch before, err := w.Schedule(s.Tenant, s.ID); {
	case err == nil && bytes.Equal(before.Request.Hash, c.Hash):
		return ScheduleMade{Schedule: before, Duplicate: true}, nil
	case err == nil:
		return ScheduleMade{}, Errorf(errdefs.ErrAborted, ReasonRequestMismatch, "the request id was used for another schedule").With("request_id", requestID)
	case err != ErrNoRow:
		return ScheduleMade{}, err
	}
	if err := checkThreads(s.New()); err != nil {
		return ScheduleMade{}, err
	}
	limit := w.engine.limits.SchedulesPerOwner
	existing, err := w.Schedules(s.Tenant, s.Owner, 0, limit)
	if err != nil {
		return ScheduleMade{}, err
	}
	if len(existing) >= limit {
		return ScheduleMade{}, Errorf(errdefs.ErrResourceExhausted, ReasonQueueFull, "the owner has %d schedules", limit).With("scope", "schedules").With("limit", strconv.Itoa(limit))
	}
	s.CreateTime, s.UpdateTime, s.Revision = w.now, w.now, 1
	if err := s.plan(w.now); err != nil {
		return ScheduleMade{}, err
	}
	if !s.Next.IsZero() {
		w.Signal(Signal{Kind: SignalWake, Tenant: s.Tenant, Time: s.Next})
	}
	return ScheduleMade{Schedule: s}, w.InsertSchedule(&s)
}

// seenSchedule returns a schedule of the viewer, or SCHEDULE_NOT_FOUND.
func seenSchedule(tx ReadTx, v Viewer, id string) (Schedule, error) {
	s, err := tx.Schedule(v.Tenant, id)
	if err == ErrNoRow || (err == nil && s.Owner != v.Owner) {
		return Schedule{}, Errorf(errdefs.ErrNotFound, ReasonScheduleNotFound, "no such schedule").With("schedule_id", id)
	}
	return s, err
}

// GetSchedule returns one schedule.
func (e *Engine) GetSchedule(ctx context.Context, v Viewer, id string) (Schedule, error) {
	return view(ctx, e, func(tx ReadTx) (Schedule, error) { return seenSchedule(tx, v, id) })
}

// ListSchedules returns schedules of the viewer, newest first, and whether there are more.
func (e *Engine) ListSchedules(ctx context.Context, v Viewer, before int64, limit int) (page []Schedule, more bool, err error) {
	page, err = view(ctx, e, func(tx ReadTx) ([]Schedule, error) { return tx.Schedules(v.Tenant, v.Owner, before, limit+1) })
	return page[:min(len(page), limit)], len(page) > limit, err
}

// UpdateSchedule replaces what a client may set.
func (e *Engine) UpdateSchedule(ctx context.Context, v Viewer, bucket, id string, c Call, next Schedule, ifRevision int64) (Schedule, error) {
	return update(ctx, e, func(w *work) (Schedule, error) {
		s, err := seenSchedule(w, v, id)
		if err != nil {
			return Schedule{}, err
		}
		return once(w, bucket, c, func() (Schedule, error) {
			if ifRevision != 0 && ifRevision != s.Revision {
				return Schedule{}, Errorf(errdefs.ErrAborted, ReasonRevisionConflict, "the schedule was changed").
					With("schedule_id", id).With("revision", strconv.FormatInt(s.Revision, 10))
			}
			s.Label, s.Cron, s.Interval, s.Zone, s.Template = next.Label, next.Cron, next.Interval, next.Zone, next.Template
			s.SkipMissed, s.Overlap, s.Paused, s.Annotations = next.SkipMissed, next.Overlap, next.Paused, next.Annotations
			// Its tasks work with what who changed it may do, not with what its maker could.
			s.Identity, s.Bucket, s.Grant = next.Identity, next.Bucket, next.Grant
			s.UpdateTime = w.now
			s.Revision++
			if err := checkThreads(s.New()); err != nil {
				return Schedule{}, err
			}
			if err := s.plan(w.now); err != nil {
				return Schedule{}, err
			}
			return s, w.saveSchedule(&s)
		})
	})
}

// DeleteSchedule removes a schedule.
func (e *Engine) DeleteSchedule(ctx context.Context, v Viewer, bucket, id string, c Call) error {
	_, err := update(ctx, e, func(w *work) (struct{}, error) {
		return once(w, bucket, c, func() (struct{}, error) {
			if _, err := seenSchedule(w, v, id); err != nil {
				return struct{}{}, err
			}
			return struct{}{}, w.DeleteSchedule(v.Tenant, id)
		})
	})
	return err
}

// RunSchedule creates a task as a firing would.
func (e *Engine) RunSchedule(ctx context.Context, v Viewer, id, requestID string, c Call) (Created, error) {
	return update(ctx, e, func(w *work) (Created, error) {
		s, err := seenSchedule(w, v, id)
		if err != nil {
			return Created{}, err
		}
		n := s.New()
		n.RequestID, n.Call = requestID, c
		created, err := w.create(n)
		if err != nil || created.Duplicate {
			return created, err
		}
		s.Fired++
		s.Last, s.LastTaskID = w.now, created.Task.ID
		return created, w.saveSchedule(&s)
	})
}
