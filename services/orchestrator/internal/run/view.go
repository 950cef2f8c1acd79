package run

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// snapshot is the state that tools and compilations may read while the run works.
type snapshot struct {
	todos    []*threadv1.TodoItem
	planning bool
	plan     string
	tasks    []loop.Task
}

// show publishes the state after a commit.
func (a *actor) show() {
	s := a.state
	a.shown.Store(&snapshot{todos: s.Todos, planning: s.Planning, plan: s.PlanPath, tasks: s.Tasks})
	r := s.Run
	if r == nil {
		r = s.Latest
	}
	if r != nil {
		a.view.Store(runView(r, threadProto(a.key)))
	}
}

// Todos implements [StateView].
func (a *actor) Todos() []*threadv1.TodoItem { return a.shown.Load().todos }

// Planning implements [StateView].
func (a *actor) Planning() (bool, string) { s := a.shown.Load(); return s.planning, s.plan }

// Tasks implements [StateView].
func (a *actor) Tasks() []loop.Task { return a.shown.Load().tasks }

// runView is a run as clients see it.
func runView(r *loop.Run, thread *commonv1.Thread) *orchestratorv1.Run {
	out := &orchestratorv1.Run{
		Id: r.ID, Thread: thread, Scope: r.Started.GetIdentity().GetScope(), State: r.State, Usage: proto.CloneOf(r.Usage), Steps: int32(r.Step), Model: r.Started.GetModel(),
		RequestId: r.Started.GetRequestId(), StartTime: stamp(r.StartTime), Interactions: r.Interactions(), CancelRequested: r.Cancel != nil, TaskId: r.Started.GetTaskId(),
		FirstSeq: r.FirstSeq, LastSeq: r.LastSeq,
	}
	if r.State == threadv1.RunState_RUN_STATE_RUNNING {
		return out
	}
	out.Reason, out.Message, out.Text, out.Output, out.EndTime = r.Ended.GetReason(), r.Ended.GetMessage(), r.Ended.GetText(), r.Ended.GetOutput(), stamp(r.EndTime)
	if loop.Terminal(r.State) {
		out.Interactions = nil
	}
	return out
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// runTypes are the events from which runs can be shown without the rest of the journal.
var runTypes = []string{
	"run/started", "run/ended", "request/prepared", "model/ended", "interaction/requested", "interaction/resolved", "cancel/requested",
}

// Views collects the runs of a thread from its events.
type Views struct {
	Thread *commonv1.Thread
	runs   map[string]*orchestratorv1.Run
	order  []string
}

// Add takes the next event.
func (v *Views) Add(ev *threadv1.Event) error {
	p := ev.GetPayload()
	if ev.GetRunId() == "" || p == nil {
		return nil
	}
	r := v.runs[ev.GetRunId()]
	if r == nil {
		if p.GetRunStarted() == nil && p.GetRunEnded() == nil {
			return nil
		}
		r = &orchestratorv1.Run{Id: ev.GetRunId(), Thread: v.Thread, State: threadv1.RunState_RUN_STATE_RUNNING, FirstSeq: ev.GetSeq(), Usage: &threadv1.Usage{}}
		if v.runs == nil {
			v.runs = map[string]*orchestratorv1.Run{}
		}
		v.runs[r.Id] = r
		v.order = append(v.order, r.Id)
	}
	r.LastSeq = ev.GetSeq()
	v.fold(r, ev)
	return nil
}

func (v *Views) fold(r *orchestratorv1.Run, ev *threadv1.Event) {
	switch p := ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RunStarted:
		s := p.RunStarted
		r.Scope, r.Model, r.RequestId, r.TaskId, r.StartTime = s.GetIdentity().GetScope(), s.GetModel(), s.GetRequestId(), s.GetTaskId(), ev.GetTime()
	case *threadv1.EventPayload_RunEnded:
		e := p.RunEnded
		r.State, r.Reason, r.Message, r.Text, r.Output, r.EndTime = e.GetState(), e.GetReason(), e.GetMessage(), e.GetText(), e.GetOutput(), ev.GetTime()
		if e.GetUsage() != nil {
			r.Usage, r.Steps = proto.CloneOf(e.GetUsage()), e.GetSteps()
		}
		if loop.Terminal(r.State) {
			r.Interactions = nil
		}
		return
	case *threadv1.EventPayload_RequestPrepared:
		r.Steps = ev.GetStep()
	case *threadv1.EventPayload_ModelEnded:
		loop.AddUsage(r.Usage, p.ModelEnded.GetUsage())
	case *threadv1.EventPayload_InteractionRequested:
		r.Interactions = append(r.Interactions, p.InteractionRequested.GetInteraction())
	case *threadv1.EventPayload_InteractionResolved:
		for i, open := range r.Interactions {
			if open.GetId() == p.InteractionResolved.GetInteractionId() {
				r.Interactions = append(r.Interactions[:i:i], r.Interactions[i+1:]...)
				break
			}
		}
	case *threadv1.EventPayload_CancelRequested:
		r.CancelRequested = true
	}
	if !loop.Terminal(r.State) {
		r.State, r.Reason, r.Message, r.Text, r.EndTime = threadv1.RunState_RUN_STATE_RUNNING, "", "", "", nil
	}
}

// Newest returns the runs, the newest first.
func (v *Views) Newest() []*orchestratorv1.Run {
	out := make([]*orchestratorv1.Run, 0, len(v.order))
	for i := len(v.order) - 1; i >= 0; i-- {
		out = append(out, v.runs[v.order[i]])
	}
	return out
}

// Find returns a run; "latest" is the newest.
func (v *Views) Find(id string) *orchestratorv1.Run {
	if id == Latest && len(v.order) > 0 {
		id = v.order[len(v.order)-1]
	}
	return v.runs[id]
}

// Latest stands for the newest run of a thread.
const Latest = "latest"

// outcomes are the names of the states in which a stream ends.
var outcomes = map[threadv1.RunState]string{
	threadv1.RunState_RUN_STATE_COMPLETED: "completed", threadv1.RunState_RUN_STATE_SUSPENDED: "suspended",
	threadv1.RunState_RUN_STATE_FAILED: "failed", threadv1.RunState_RUN_STATE_CANCELLED: "cancelled",
}
