package rpc

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// toTask makes the message of a task. What the domain did not read stays absent.
func toTask(t *task.Task) *taskv1.Task {
	out := &taskv1.Task{
		Id: t.ID, Kind: t.Kind, Queue: t.Queue, Capability: t.Capability, State: taskv1.TaskState(t.State), CancelRequested: t.CancelAsked,
		CancelRequestTime: toTime(t.CancelTime), Identity: toIdentity(t.Identity), Bucket: t.Bucket,
		Grant:        &taskv1.TaskGrant{Verbs: t.Grant.Verbs, PathPrefixes: t.Grant.Prefixes, PathsLimited: t.Grant.Limited},
		ParentTaskId: t.ParentID, RootTaskId: t.RootID, Depth: int32(t.Depth), ParentThread: toThread(t.ParentThread),
		DeliveryMode: taskv1.DeliveryMode(t.Delivery), DeliveryTime: toTime(t.DeliveredTime), ChildThread: toThread(t.ChildThread), Label: t.Label,
		Input: toInput(t.Input), Result: toResult(t.Result), Error: toFault(t.Fault), Attempts: int32(t.Attempts), MaxAttempts: int32(t.MaxAttempts),
		Backoff:       &taskv1.Backoff{Initial: durationpb.New(t.Backoff.Initial), Max: durationpb.New(t.Backoff.Max)},
		NotBeforeTime: toTime(t.NotBefore), DeadlineTime: toTime(t.Deadline),
		Progress: toProgress(t.Progress), Priority: int32(t.Priority), CreateTime: toTime(t.CreateTime), StartTime: toTime(t.StartTime),
		EndTime: toTime(t.EndTime), UpdateTime: toTime(t.UpdateTime), Revision: t.Revision, RetryOfTaskId: t.RetryOf, ScheduleId: t.ScheduleID,
		Annotations: t.Annotations,
	}
	if t.Budget != (task.Budget{}) {
		out.Budget = &taskv1.Budget{Steps: t.Budget.Steps, Tokens: t.Budget.Tokens, CostMicros: t.Budget.CostMicros}
	}
	if t.State == task.Running {
		out.Lease = &taskv1.Lease{
			WorkerId: t.Lease.Worker, FencingToken: t.Epoch, ExpireTime: toTime(t.Lease.Expire), Duration: durationpb.New(t.Lease.Life), Resumed: t.Lease.Resumed,
		}
	}
	if t.State == task.Waiting {
		out.Waiting = toWaiting(t.Wait)
	}
	for _, a := range t.Answers {
		out.Answers = append(out.Answers, &taskv1.InteractionAnswer{
			InteractionId: a.InteractionID, Decision: a.Decision, Texts: a.Texts, Data: toStruct(a.Data), Actor: a.Actor, AnswerTime: toTime(a.Time),
		})
	}
	return out
}

// bare is toTask without what is large.
func bare(t task.Task) *taskv1.Task {
	t.Input, t.Result = nil, nil
	return toTask(&t)
}

func toTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// fromTime reads a time to the microsecond, as stores keep it: a time that comes due must not be a fraction later than the clock can show.
func fromTime(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime().Truncate(time.Microsecond)
}

func fromDuration(d *durationpb.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return d.AsDuration().Truncate(time.Microsecond)
}

// toStruct reads a struct from its wire form, which only this package makes.
func toStruct(data []byte) *structpb.Struct {
	if len(data) == 0 {
		return nil
	}
	s := new(structpb.Struct)
	if proto.Unmarshal(data, s) != nil {
		return nil
	}
	return s
}

// wire returns the deterministic wire form of a message, nil for none.
func wire(m proto.Message) []byte {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	// Marshalling a message that was received can't fail: it has no required fields and its text is valid.
	data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return data
}

var scopes = map[identity.Scope]commonv1.Scope{
	identity.ScopeUser: commonv1.Scope_SCOPE_USER, identity.ScopeSession: commonv1.Scope_SCOPE_SESSION,
	identity.ScopeAgent: commonv1.Scope_SCOPE_AGENT, identity.ScopeGlobal: commonv1.Scope_SCOPE_GLOBAL,
}

func toIdentity(id identity.Identity) *commonv1.Identity {
	return &commonv1.Identity{Tenant: id.Tenant, Agent: id.Agent, User: id.User, Session: id.Session, Scope: scopes[id.Scope]}
}

func toThread(t identity.Thread) *commonv1.Thread {
	if t == (identity.Thread{}) {
		return nil
	}
	return &commonv1.Thread{Tenant: t.Tenant, Agent: t.Agent, User: t.User, Session: t.Session}
}

// fromThread reads a thread; an empty tenant is the caller's.
func fromThread(t *commonv1.Thread, tenant string) (identity.Thread, error) {
	if t == nil {
		return identity.Thread{}, nil
	}
	thread := identity.Thread{Tenant: t.GetTenant(), Agent: t.GetAgent(), User: t.GetUser(), Session: t.GetSession()}
	if thread.Tenant == "" {
		thread.Tenant = tenant
	}
	return thread, thread.Validate()
}

func toInput(in *task.Input) *taskv1.TaskInput {
	if in == nil {
		return nil
	}
	return &taskv1.TaskInput{Text: in.Text, Data: toStruct(in.Data), Bytes: in.Bytes}
}

func fromInput(in *taskv1.TaskInput) *task.Input {
	if in == nil {
		return nil
	}
	return &task.Input{Text: in.GetText(), Data: wire(in.GetData()), Bytes: in.GetBytes()}
}

func toResult(r *task.Result) *taskv1.TaskResult {
	if r == nil {
		return nil
	}
	return &taskv1.TaskResult{
		Text: r.Text, Data: toStruct(r.Data), Truncated: r.Truncated, FullTextPath: r.FullTextPath, FullTextBlobSha256: r.FullTextBlob, FullTextBytes: r.FullTextBytes,
	}
}

func fromResult(r *taskv1.TaskResult) *task.Result {
	if r == nil {
		return nil
	}
	return &task.Result{
		Text: r.GetText(), Data: wire(r.GetData()), Truncated: r.GetTruncated(), FullTextPath: r.GetFullTextPath(), FullTextBlob: r.GetFullTextBlobSha256(),
		FullTextBytes: r.GetFullTextBytes(),
	}
}

func toFault(f task.Fault) *taskv1.TaskError {
	if f == (task.Fault{}) {
		return nil
	}
	return &taskv1.TaskError{Reason: f.Reason, Message: f.Message, Retryable: f.Retryable}
}

func fromFault(e *taskv1.TaskError) task.Fault {
	return task.Fault{Reason: e.GetReason(), Message: e.GetMessage(), Retryable: e.GetRetryable()}
}

func toProgress(p task.Progress) *taskv1.Progress {
	if p == (task.Progress{}) {
		return nil
	}
	return &taskv1.Progress{
		Steps: p.Steps, Tokens: p.Tokens, CostMicros: p.CostMicros, Percent: int32(p.Percent), Message: p.Message, Tail: p.Tail, UpdateTime: toTime(p.Time),
	}
}

func fromProgress(p *taskv1.Progress) *task.Progress {
	if p == nil {
		return nil
	}
	return &task.Progress{
		Steps: p.GetSteps(), Tokens: p.GetTokens(), CostMicros: p.GetCostMicros(), Percent: int(p.GetPercent()), Message: p.GetMessage(), Tail: p.GetTail(),
	}
}

func fromBudget(b *taskv1.Budget) task.Budget {
	return task.Budget{Steps: b.GetSteps(), Tokens: b.GetTokens(), CostMicros: b.GetCostMicros()}
}

func toWaiting(w task.WaitingFor) *taskv1.Waiting {
	out := &taskv1.Waiting{ResumeTime: toTime(w.Resume), ResumeOnChild: w.OnChild, SinceTime: toTime(w.Since)}
	for _, i := range w.Interactions {
		message := new(threadv1.Interaction)
		if proto.Unmarshal(i.Raw, message) == nil {
			out.Interactions = append(out.Interactions, message)
		}
	}
	return out
}

func fromWaiting(w *taskv1.Waiting) (task.WaitingFor, error) {
	out := task.WaitingFor{Resume: fromTime(w.GetResumeTime()), OnChild: w.GetResumeOnChild()}
	ids := make(map[string]bool)
	for _, i := range w.GetInteractions() {
		if err := identity.ValidateID("interaction_id", i.GetId()); err != nil {
			return task.WaitingFor{}, err
		}
		if ids[i.GetId()] {
			return task.WaitingFor{}, invalidField("waiting.interactions", "two interactions have the same id")
		}
		ids[i.GetId()] = true
		out.Interactions = append(out.Interactions, task.Interaction{ID: i.GetId(), Expire: fromTime(i.GetExpireTime()), Raw: wire(i)})
	}
	return out, nil
}

func fromStates(states []taskv1.TaskState) []task.State {
	out := make([]task.State, 0, len(states))
	for _, s := range states {
		out = append(out, task.State(s))
	}
	return out
}
