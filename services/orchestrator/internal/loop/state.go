package loop

import (
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Schema is the highest event schema that this package knows.
const Schema = 1

// Entry is one message of the visible conversation with its place in the journal.
type Entry struct {
	Message *threadv1.Message
	// Seq is that of the event which completed the message.
	Seq   int64
	RunID string
}

// Thread is the projection of one thread's journal. The zero value is the empty thread.
type Thread struct {
	// Seq is that of the last event applied.
	Seq int64
	// Conversation is what the model may see now: after compaction.
	Conversation []Entry
	// Run is the open run, working or suspended. Nil: none.
	Run *Run
	// Latest is the newest run that ended. Nil: none.
	Latest *Run
	Todos  []*threadv1.TodoItem
	// Planning is plan mode; PlanPath the plan's file, when one was written.
	Planning bool
	PlanPath string
	// Mode and Rules were set in this thread by a person. Empty: the agent's own. A rule stands once, so people bound them.
	Mode  string
	Rules []string
	// Tasks holds the tasks that the thread created, in order: the open ones, and the last [KeptTasks] that ended.
	Tasks []Task

	// known and callIDs are what a thread remembers of its past beside the conversation; see memory.go for what bounds them.
	known   []string
	callIDs map[uint64]bool
	// held are messages that came while calls were open: they follow the calls' results, so that no pair is parted.
	held []Entry
}

// Task is a task that the thread created.
type Task struct {
	Started *threadv1.TaskStarted
	RunID   string
	// Ended says that its result reached the thread.
	Ended bool
}

// OpenTask says whether the thread created the task and has no result of it yet.
func (t *Thread) OpenTask(id string) bool {
	i := t.task(id)
	return i >= 0 && !t.Tasks[i].Ended
}

func (t *Thread) task(id string) int {
	for i := len(t.Tasks) - 1; i >= 0; i-- {
		if t.Tasks[i].Started.GetTaskId() == id {
			return i
		}
	}
	return -1
}

// Run is a run as its events tell it.
type Run struct {
	ID        string
	TurnID    string
	Started   *threadv1.RunStarted
	Settings  Settings
	StartTime time.Time
	EndTime   time.Time
	FirstSeq  int64
	LastSeq   int64

	// State is RUNNING or SUSPENDED while the run is open, and terminal after.
	State threadv1.RunState
	// Step counts model requests that were prepared.
	Step int
	// Model is the request that was dispatched and has no end. Nil: none.
	Model *ModelCall
	// Calls are those of the current step, in order. Empty when all have their result and the results joined the conversation.
	Calls []*Call
	// CallStep is the message that asked for Calls.
	CallMessage string
	// Answered says that the last answer was final: text, and no calls.
	Answered bool
	// Blank says that the last answer had neither text nor calls.
	Blank bool
	// Blanks counts blank answers in a row.
	Blanks int
	// Finish is why the last answer ended.
	Finish string
	// Text is that of the last answer.
	Text string
	// Usage of all requests so far.
	Usage *threadv1.Usage
	// Children counts tasks that the run created.
	Children int
	// Cancel is set once a cancel was asked for.
	Cancel *threadv1.CancelRequested
	// Interrupted is set by an interrupt until the next request; Stop says that nothing follows it.
	Interrupted bool
	Stop        bool
	// Ended is the terminal event, or the last suspension.
	Ended *threadv1.RunEnded

	failures map[string]failure
	stuck    string
}

// ModelCall is a model request on its way.
type ModelCall struct {
	MessageID string `json:"message_id"`
	Attempt   int32  `json:"attempt"`
	Model     string `json:"model"`
	// PreparedSeq is the sequence of the request; effect ids of the calls that it leads to are made from it.
	PreparedSeq int64 `json:"prepared_seq"`
}

// Open returns the calls that have no result.
func (r *Run) Open() []*Call {
	var open []*Call
	for _, c := range r.Calls {
		if c.Result == nil {
			open = append(open, c)
		}
	}
	return open
}

// Call finds a call of the current step.
func (r *Run) Call(id string) *Call {
	for _, c := range r.Calls {
		if c.Call.GetId() == id {
			return c
		}
	}
	return nil
}

// ByInteraction finds the call that an interaction belongs to.
func (r *Run) ByInteraction(id string) *Call {
	for _, c := range r.Calls {
		if c.Interaction.GetId() == id {
			return c
		}
	}
	return nil
}

// Interactions lists what waits for an answer, in the order of the calls.
func (r *Run) Interactions() []*threadv1.Interaction {
	var open []*threadv1.Interaction
	for _, c := range r.Calls {
		if c.Result == nil && c.Waiting() {
			open = append(open, c.Interaction)
		}
	}
	return open
}

// Terminal says whether the state is one that a run does not leave.
func Terminal(s threadv1.RunState) bool {
	return s == threadv1.RunState_RUN_STATE_COMPLETED || s == threadv1.RunState_RUN_STATE_FAILED || s == threadv1.RunState_RUN_STATE_CANCELLED
}

// Messages returns the visible conversation.
func (t *Thread) Messages() []*threadv1.Message {
	out := make([]*threadv1.Message, len(t.Conversation))
	for i, e := range t.Conversation {
		out[i] = e.Message
	}
	return out
}

// Stamp corrects the times of runs once the store has said when an event was committed; until then they are the writer's own.
func (t *Thread) Stamp(ev *threadv1.Event) {
	for _, r := range []*Run{t.Run, t.Latest} {
		if r == nil || r.ID != ev.GetRunId() {
			continue
		}
		if ev.GetPayload().GetRunStarted() != nil {
			r.StartTime = ev.GetTime().AsTime()
		}
		if ev.GetPayload().GetRunEnded() != nil {
			r.EndTime = ev.GetTime().AsTime()
		}
	}
}
