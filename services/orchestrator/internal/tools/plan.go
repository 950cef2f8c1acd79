package tools

import (
	"context"
	"fmt"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// planPath is where the plan of a workspace stands.
const planPath = "plans/PLAN.md"

const maxTodos = 100

type nothing struct{}

type planWriteIn struct {
	Content string `json:"content" jsonschema:"the whole plan, as Markdown"`
}

type planExitIn struct {
	Summary string `json:"summary,omitempty" jsonschema:"the plan in a few words, for the person who approves it"`
}

type todoIn struct {
	Todos []todoItem `json:"todos" jsonschema:"the whole list; it replaces the one before"`
}

type todoItem struct {
	Content string `json:"content" jsonschema:"what is to be done"`
	Status  string `json:"status,omitempty" jsonschema:"pending, in_progress or completed; pending when left out"`
}

func (env Env) planTools() []tool.Tool {
	spec := func(name, description string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectNone}
	}
	write, exit := spec("plan_write", "Write the plan, replacing the one before."), spec("plan_exit", "Ask the person to approve the plan and leave plan mode.")
	write.EffectKind, exit.Ask = tool.EffectFiles, true
	return []tool.Tool{
		tool.Func(spec("plan_enter", "Enter plan mode: nothing is changed until a person has approved the plan."), env.planEnter),
		tool.Func(write, env.planWrite),
		tool.Func(exit, env.planExit),
		tool.Func(spec("todo_write", "Keep a list of what is to be done; one item at most is in progress."), env.todoWrite),
	}
}

func (env Env) planEnter(context.Context, tool.Call, nothing) (tool.Result, error) {
	r := tool.OK("Plan mode is on: look around, write the plan with plan_write, then ask with plan_exit.")
	r.Events = planChanged("entered")
	return r, nil
}

func (env Env) planWrite(ctx context.Context, _ tool.Call, in planWriteIn) (tool.Result, error) {
	got, err := env.Files.Write(ctx, &fsv1.WriteRequest{Path: planPath, Content: []byte(in.Content)})
	if err != nil {
		return tool.Result{}, err
	}
	r := written(fmt.Sprintf("The plan is in %s (%d bytes).", planPath, got.GetInfo().GetSizeBytes()), got.GetInfo(), got.GetCursor())
	r.Events = planChanged("written")
	return r, nil
}

// planExit runs only after a person approved the call, since its Spec asks whatever the mode is.
func (env Env) planExit(context.Context, tool.Call, planExitIn) (tool.Result, error) {
	if !env.State().Planning {
		return tool.Failed("NOT_PLANNING", "Plan mode is not on."), nil
	}
	r := tool.OK("The plan is approved and plan mode is off: carry it out.")
	r.Events = planChanged("exited")
	return r, nil
}

func planChanged(change string) []*threadv1.EventPayload {
	return []*threadv1.EventPayload{{Kind: &threadv1.EventPayload_PlanChanged{PlanChanged: &threadv1.PlanChanged{Change: change, Path: planPath}}}}
}

func (env Env) todoWrite(_ context.Context, _ tool.Call, in todoIn) (tool.Result, error) {
	items, problem := todos(in.Todos)
	if problem != "" {
		return tool.Failed("ARGUMENTS_INVALID", problem), nil
	}
	r := tool.OK(Todos(items))
	r.Events = []*threadv1.EventPayload{{Kind: &threadv1.EventPayload_TodoChanged{TodoChanged: &threadv1.TodoChanged{Items: items}}}}
	return r, nil
}

func todos(in []todoItem) (items []*threadv1.TodoItem, problem string) {
	if len(in) > maxTodos {
		return nil, fmt.Sprintf("The list has %d items; %d are allowed.", len(in), maxTodos)
	}
	working := 0
	for i, item := range in {
		if strings.TrimSpace(item.Content) == "" {
			return nil, fmt.Sprintf("Item %d says nothing.", i)
		}
		switch item.Status {
		case "":
			item.Status = "pending"
		case "in_progress":
			working++
		case "pending", "completed":
		default:
			return nil, fmt.Sprintf("Item %d has the status %q; it is pending, in_progress or completed.", i, item.Status)
		}
		items = append(items, &threadv1.TodoItem{Content: item.Content, Status: item.Status})
	}
	if working > 1 {
		return nil, fmt.Sprintf("%d items are in progress; one at most may be.", working)
	}
	return items, ""
}

// Todos shows a task list: one item a line with its box.
func Todos(items []*threadv1.TodoItem) string {
	if len(items) == 0 {
		return "The list is empty."
	}
	boxes := map[string]string{"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}
	var b strings.Builder
	open := 0
	for _, item := range items {
		fmt.Fprintf(&b, "\n- %s %s", boxes[item.GetStatus()], item.GetContent())
		if item.GetStatus() != "completed" {
			open++
		}
	}
	return fmt.Sprintf("%d open of %d:%s", open, len(items), b.String())
}
