package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Kind and queue of the tasks in which child runs work.
const (
	TaskKind  = "agent_run"
	TaskQueue = "agent-run"
)

// How long a spawn waits for its child.
const (
	spawnDefault = 30 * time.Second
	spawnMax     = 600 * time.Second
	// waitSlack is what the waiting call may take beyond its wait.
	waitSlack = 15 * time.Second
)

type spawnIn struct {
	AgentID string `json:"agent_id" jsonschema:"id of the subagent, as listed in available_subagents"`
	Task    string `json:"task" jsonschema:"what it is to do, complete in itself: it sees nothing of this conversation"`
	Label   string `json:"label,omitempty" jsonschema:"a short name for this child, by which agent_send finds it again"`
	Timeout *int   `json:"timeout_seconds,omitempty" jsonschema:"how long to wait for its answer, at most 600; 30 when left out; 0 leaves it in the background"`
}

type sendIn struct {
	Label   string `json:"label" jsonschema:"label or task id of a child that was spawned in this conversation"`
	Message string `json:"message" jsonschema:"what to tell it"`
	Timeout *int   `json:"timeout_seconds,omitempty" jsonschema:"as for agent_spawn"`
}

func (env Env) agentTools() []tool.Tool {
	spec := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectTask, ConcurrencySafe: true, Timeout: spawnMax + waitSlack}
	}
	list := spec("agent_list", "List the children that were spawned in this conversation.")
	list.EffectKind, list.ReadOnly = tool.EffectNone, true
	return []tool.Tool{
		tool.Func(spec("agent_spawn", "Give a task to a subagent and wait for its answer. When the wait runs out, it goes on in the background and its answer comes later."), env.agentSpawn),
		tool.Func(spec("agent_send", "Go on talking to a child that has answered: it remembers what it did."), env.agentSend),
		tool.Func(list, env.agentList),
	}
}

func (env Env) agentSpawn(ctx context.Context, _ tool.Call, in spawnIn) (tool.Result, error) {
	sub, ok := env.Definition.Subagent(in.AgentID)
	if !ok || sub.Primary {
		return tool.Failed("AGENT_NOT_FOUND", fmt.Sprintf("There is no subagent %q. There are: %s.", in.AgentID, env.subagentNames())), nil
	}
	if in.Label != "" {
		if _, taken := env.child(in.Label); taken {
			return tool.Failed("LABEL_TAKEN", fmt.Sprintf("A child of this conversation has the label %q: talk to it with agent_send, or use another label.", in.Label)), nil
		}
	}
	child := env.Thread
	id, _ := identity.FromContext(ctx)
	child.Session = tool.ChildSession(id.Effect)
	return env.delegate(ctx, sub, in.Label, child, in.Task, in.Timeout)
}

func (env Env) agentSend(ctx context.Context, _ tool.Call, in sendIn) (tool.Result, error) {
	child, ok := env.child(in.Label)
	if !ok {
		return tool.Failed("CHILD_NOT_FOUND", fmt.Sprintf("No child of this conversation is called %q; agent_list shows them.", in.Label)), nil
	}
	sub, ok := env.Definition.Subagent(child.Agent)
	if !ok {
		return tool.Failed("AGENT_NOT_FOUND", fmt.Sprintf("The subagent %q does not exist any more.", child.Agent)), nil
	}
	return env.delegate(ctx, sub, child.Label, child.Thread, in.Message, in.Timeout)
}

// delegate creates the task of a child run and waits for it as long as was asked for. The task is idempotent by the
// effect of the call, so that a repeat after a crash waits for the same child.
func (env Env) delegate(ctx context.Context, sub definition.Subagent, label string, child identity.Thread, text string, timeout *int) (tool.Result, error) {
	if strings.TrimSpace(text) == "" {
		return tool.Failed("ARGUMENTS_INVALID", "Say what the subagent is to do."), nil
	}
	data, err := env.Delegate(sub, label)
	if err != nil {
		return tool.Result{}, err
	}
	created, err := env.Tasks.CreateTask(ctx, &taskv1.CreateTaskRequest{
		Kind: TaskKind, Queue: TaskQueue, Label: label, Input: &taskv1.TaskInput{Text: text, Data: data},
		ParentTaskId: env.TaskID, ParentThread: protoThread(env.Thread), ChildThread: protoThread(child),
		DeliveryMode: taskv1.DeliveryMode_DELIVERY_MODE_WAKE,
	})
	if err != nil {
		return tool.Result{}, err
	}
	started := &threadv1.EventPayload{Kind: &threadv1.EventPayload_TaskStarted{TaskStarted: &threadv1.TaskStarted{
		TaskId: created.GetTask().GetId(), Agent: sub.ID, Label: label, ChildThread: protoThread(child),
	}}}
	result, err := env.await(ctx, created.GetTask(), spawnWait(timeout))
	if err != nil {
		return tool.Result{}, err
	}
	result.Events = append([]*threadv1.EventPayload{started}, result.Events...)
	return result.With("task_id", created.GetTask().GetId()).With("session", child.Session), nil
}

// await waits for one task. When the wait runs out the task goes on and its result comes by mail.
func (env Env) await(ctx context.Context, task *taskv1.Task, wait time.Duration) (tool.Result, error) {
	if wait > 0 && !ended(task) {
		got, err := env.Tasks.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: []string{task.GetId()}, MaxWait: durationpb.New(wait), ReturnOnWaiting: true})
		if err != nil {
			return tool.Result{}, err
		}
		task = got.GetTasks()[0]
	}
	if !ended(task) {
		text := fmt.Sprintf("Task %s works in the background. Its result will be delivered here; task_wait waits for it.", task.GetId())
		if task.GetState() == taskv1.TaskState_TASK_STATE_WAITING {
			text = fmt.Sprintf("Task %s waits for a person's answer and goes on when it has it.", task.GetId())
		}
		return tool.OK(text), nil
	}
	result := outcome(task)
	result.Events = []*threadv1.EventPayload{{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: &threadv1.TaskDelivered{
		TaskId: task.GetId(), State: stateName(task.GetState()), Reason: task.GetError().GetReason(),
	}}}}
	return result, nil
}

func spawnWait(seconds *int) time.Duration {
	if seconds == nil {
		return spawnDefault
	}
	return min(max(time.Duration(*seconds)*time.Second, 0), spawnMax)
}

func (env Env) child(name string) (Child, bool) {
	children := env.State().Children
	for i := len(children) - 1; i >= 0; i-- { // the newest task of a label stands for its child
		if c := children[i]; strings.EqualFold(c.Label, name) || c.TaskID == name {
			return c, true
		}
	}
	return Child{}, false
}

func (env Env) agentList(context.Context, tool.Call, nothing) (tool.Result, error) {
	var b strings.Builder
	for _, c := range env.State().Children {
		state := "working"
		if c.Ended {
			state = "has answered"
		}
		fmt.Fprintf(&b, "%s  agent %s  label %q  %s\n", c.TaskID, c.Agent, c.Label, state)
	}
	if b.Len() == 0 {
		return tool.OK("No child was spawned in this conversation."), nil
	}
	return tool.OK(strings.TrimSuffix(b.String(), "\n")), nil
}

func (env Env) subagentNames() string {
	var names []string
	for _, s := range env.Definition.VisibleSubagents() {
		names = append(names, s.ID)
	}
	return strings.Join(names, ", ")
}

func protoThread(t identity.Thread) *commonv1.Thread {
	return &commonv1.Thread{Tenant: t.Tenant, Agent: t.Agent, User: t.User, Session: t.Session}
}

// Delegate makes the data of a child's task: the parent's ceilings, which the worker holds the child to.
type Delegate func(sub definition.Subagent, label string) (*structpb.Struct, error)
