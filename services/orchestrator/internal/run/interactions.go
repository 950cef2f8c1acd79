package run

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// Asked is an interaction with its place and its answer.
type Asked struct {
	Interaction *threadv1.Interaction
	RunID       string
	TaskID      string
	// Resolution is nil while it is open.
	Resolution *threadv1.InteractionResolved
}

// Open says whether it waits for an answer.
func (a Asked) Open() bool { return a.Resolution == nil }

// Asks is what a thread asks, and whom it delegated to.
type Asks struct {
	List  []Asked
	Tasks []loop.Task
	Head  int64
}

// Find returns the interaction of an id.
func (a *Asks) Find(id string) (Asked, bool) {
	for _, x := range a.List {
		if x.Interaction.GetId() == id {
			return x, true
		}
	}
	return Asked{}, false
}

var askTypes = []string{"run/started", "run/ended", "interaction/requested", "interaction/resolved", "task/started", "task/delivered"}

// Asks reads the interactions of the thread of the context's identity, the oldest first. Those of runs that have ended count as cancelled.
func (m *Manager) Asks(ctx context.Context) (*Asks, error) {
	out := &Asks{}
	tasks := map[string]string{} // run → task
	end, err := journal.Scan(ctx, m.threads, &threadv1.ScanRequest{Types: askTypes}, func(ev *threadv1.Event) error {
		out.take(ev, tasks)
		return nil
	})
	if notFound(err) {
		return out, nil
	}
	out.Head = end.GetHead().GetSeq()
	return out, err
}

func (a *Asks) take(ev *threadv1.Event, tasks map[string]string) {
	switch p := ev.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_RunStarted:
		tasks[ev.GetRunId()] = p.RunStarted.GetTaskId()
	case *threadv1.EventPayload_InteractionRequested:
		a.List = append(a.List, Asked{Interaction: p.InteractionRequested.GetInteraction(), RunID: ev.GetRunId(), TaskID: tasks[ev.GetRunId()]})
	case *threadv1.EventPayload_InteractionResolved:
		for i := range a.List {
			if a.List[i].Interaction.GetId() == p.InteractionResolved.GetInteractionId() && a.List[i].Resolution == nil {
				a.List[i].Resolution = p.InteractionResolved
			}
		}
	case *threadv1.EventPayload_RunEnded:
		if !loop.Terminal(p.RunEnded.GetState()) {
			return
		}
		for i := range a.List {
			if a.List[i].RunID == ev.GetRunId() && a.List[i].Resolution == nil {
				a.List[i].Resolution = &threadv1.InteractionResolved{InteractionId: a.List[i].Interaction.GetId(), Resolution: loop.Cancelled}
			}
		}
	case *threadv1.EventPayload_TaskStarted:
		a.Tasks = append(a.Tasks, loop.Task{Started: p.TaskStarted, RunID: ev.GetRunId()})
	case *threadv1.EventPayload_TaskDelivered:
		for i := range a.Tasks {
			if a.Tasks[i].Started.GetTaskId() == p.TaskDelivered.GetTaskId() {
				a.Tasks[i].Ended = true
			}
		}
	}
}

// answeredWithin bounds the wait for an answer to be taken in. The answer is safe in the mailbox whatever happens.
const answeredWithin = 10 * time.Second

// Answered waits until the thread has taken the answers in, so that whoever looks next sees the run go on.
func (m *Manager) Answered(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	asks, err := m.Asks(ctx)
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, id := range ids {
		if a, ok := asks.Find(id); ok && a.Open() {
			open[id] = true
		}
	}
	if len(open) == 0 {
		return nil
	}
	stream, err := m.threads.Follow(ctx, &threadv1.FollowRequest{AfterSeq: asks.Head, MaxWait: durationpb.New(answeredWithin)})
	for err == nil && len(open) > 0 {
		var msg *threadv1.FollowResponse
		if msg, err = stream.Recv(); err != nil || msg.GetEnd() != nil {
			break
		}
		delete(open, msg.GetEvent().GetPayload().GetInteractionResolved().GetInteractionId())
		if e := msg.GetEvent().GetPayload().GetRunEnded(); loop.Terminal(e.GetState()) {
			break
		}
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}
