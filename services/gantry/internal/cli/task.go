package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Task works with tasks.
type Task struct {
	List   TaskList   `cmd:"" default:"1" help:"List tasks."`
	Show   TaskShow   `cmd:"" help:"Show a task and its result."`
	Wait   TaskWait   `cmd:"" help:"Wait for tasks to end."`
	Tail   TaskTail   `cmd:"" help:"Follow changes of tasks."`
	Cancel TaskCancel `cmd:"" help:"Ask a task to end, with all below it."`
	Retry  TaskRetry  `cmd:"" help:"Start a failed task again."`
}

// TaskList lists tasks.
type TaskList struct {
	Target
	All bool `help:"Also tasks that have ended."`
}

// Run lists them.
func (c *TaskList) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			req := &taskv1.ListTasksRequest{PageToken: token}
			if !c.All {
				req.States = []taskv1.TaskState{taskv1.TaskState_TASK_STATE_PENDING, taskv1.TaskState_TASK_STATE_RUNNING, taskv1.TaskState_TASK_STATE_WAITING}
			}
			got, err := clients.Tasks.ListTasks(ctx, req)
			if err != nil {
				return "", err
			}
			return got.GetNextPageToken(), c.tasks(env, got.GetTasks()...)
		})
	})
}

// tasks prints tasks.
func (t *Target) tasks(env *Env, tasks ...*taskv1.Task) error {
	for _, task := range tasks {
		if t.JSON {
			if err := env.JSON(task); err != nil {
				return err
			}
			continue
		}
		state := strings.ToLower(strings.TrimPrefix(task.GetState().String(), "TASK_STATE_"))
		if task.GetCancelRequested() {
			state += " (cancel requested)"
		}
		env.Line("%s  %s  %s  %q  %s", task.GetId(), state, task.GetKind(), task.GetLabel(),
			oneLine(task.GetResult().GetText()+task.GetError().GetMessage(), maxShown))
	}
	return nil
}

// TaskRef names a task.
type TaskRef struct {
	Target
	ID string `arg:"" help:"Task."`
}

// TaskShow shows a task.
type TaskShow struct{ TaskRef }

// Run shows it.
func (c *TaskShow) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Tasks.GetTask(ctx, &taskv1.GetTaskRequest{TaskId: c.ID})
		if err != nil {
			return err
		}
		if err := c.tasks(env, got.GetTask()); err != nil || c.JSON {
			return err
		}
		env.Line("%s", got.GetTask().GetResult().GetText())
		return nil
	})
}

// TaskWait waits for tasks.
type TaskWait struct {
	Target
	IDs []string      `arg:"" help:"Tasks."`
	Any bool          `help:"Come back when one has ended; otherwise when all have."`
	For time.Duration `help:"How long to wait; at most 10m." default:"10m"`
}

// Run waits. Exit code 1 when the wait runs out.
func (c *TaskWait) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		mode := taskv1.WaitMode_WAIT_MODE_ALL
		if c.Any {
			mode = taskv1.WaitMode_WAIT_MODE_ANY
		}
		got, err := clients.Tasks.WaitTasks(ctx, &taskv1.WaitTasksRequest{TaskIds: c.IDs, Mode: mode, MaxWait: durationpb.New(c.For)})
		if err != nil {
			return err
		}
		if err := c.tasks(env, got.GetTasks()...); err != nil || got.GetSatisfied() {
			return err
		}
		return exitCode(ExitFailed)
	})
}

// TaskTail follows changes.
type TaskTail struct {
	Target
	Cursor string `help:"Begin after this cursor. Empty: now."`
}

// Run prints them until it is stopped.
func (c *TaskTail) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Tasks.WatchTasks(ctx, &taskv1.WatchTasksRequest{Cursor: c.Cursor})
		if err != nil {
			return err
		}
		for {
			msg, err := stream.Recv()
			if errors.Is(err, io.EOF) || msg.GetEnd() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if change := msg.GetChange(); change != nil {
				if err := c.tasks(env, change.GetTask()); err != nil {
					return err
				}
			}
		}
	})
}

// TaskCancel cancels tasks.
type TaskCancel struct {
	Target
	ID     string `arg:"" optional:"" help:"Task."`
	All    bool   `help:"Every task that has not ended."`
	Reason string `help:"Why."`
}

// Run asks for it.
func (c *TaskCancel) Run(ctx context.Context, env *Env) error {
	if (c.ID == "") != c.All {
		return errdefs.New(errdefs.ErrInvalidArgument, "gantry.cli", "TASK_MISSING", "name one task, or say --all")
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		ids := []string{c.ID}
		if c.All {
			ids = nil
			got, err := clients.Tasks.ListTasks(ctx, &taskv1.ListTasksRequest{PageSize: 500, States: []taskv1.TaskState{
				taskv1.TaskState_TASK_STATE_PENDING, taskv1.TaskState_TASK_STATE_RUNNING, taskv1.TaskState_TASK_STATE_WAITING,
			}})
			if err != nil {
				return err
			}
			for _, task := range got.GetTasks() {
				ids = append(ids, task.GetId())
			}
		}
		for _, id := range ids {
			got, err := clients.Tasks.CancelTask(ctx, &taskv1.CancelTaskRequest{TaskId: id, Reason: c.Reason})
			if err != nil {
				return err
			}
			if err := c.tasks(env, got.GetTask()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TaskRetry starts a task again.
type TaskRetry struct{ TaskRef }

// Run starts it.
func (c *TaskRetry) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Tasks.RetryTask(ctx, &taskv1.RetryTaskRequest{TaskId: c.ID})
		if err != nil {
			return err
		}
		return c.tasks(env, got.GetTask())
	})
}
