package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/services/task/internal/poll"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

const (
	defaultWait  = 30 * time.Second
	defaultWatch = 10 * time.Minute
	watchBatch   = 256
)

// WaitTasks waits until tasks have ended.
func (s *Server) WaitTasks(ctx context.Context, r *taskv1.WaitTasksRequest) (*taskv1.WaitTasksResponse, error) {
	c, err := client(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(r.GetTaskIds()))
	for _, id := range r.GetTaskIds() {
		keys = append(keys, poll.TaskKey(c.viewer.Tenant, id))
	}
	waiter, err := s.hub.Wait(keys...)
	if err != nil {
		return nil, err
	}
	defer waiter.Leave()
	timer := time.NewTimer(waitFor(ctx, fromDuration(r.GetMaxWait(), defaultWait)))
	defer timer.Stop()
	for last := false; ; {
		tasks, err := s.engine.Many(ctx, c.viewer, r.GetTaskIds())
		if err != nil {
			return nil, err
		}
		if satisfied := enough(tasks, r); satisfied || last {
			out := &taskv1.WaitTasksResponse{Satisfied: satisfied}
			for i := range tasks {
				out.Tasks = append(out.Tasks, toTask(&tasks[i]))
			}
			return out, nil
		}
		// After the time is up it looks once more, so that what ended meanwhile counts.
		select {
		case <-waiter.C:
		case <-timer.C:
			last = true
		case <-s.hub.Done():
			last = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enough says whether the tasks have ended as the request wants it.
func enough(tasks []task.Task, r *taskv1.WaitTasksRequest) bool {
	ended := 0
	for i := range tasks {
		if tasks[i].State.Terminal() || (r.GetReturnOnWaiting() && tasks[i].AwaitsAnswer()) {
			ended++
		}
	}
	if r.GetMode() == taskv1.WaitMode_WAIT_MODE_ANY {
		return ended > 0
	}
	return ended == len(tasks)
}

// WatchTasks streams changes.
func (s *Server) WatchTasks(r *taskv1.WatchTasksRequest, stream grpc.ServerStreamingServer[taskv1.WatchTasksResponse]) error {
	ctx := stream.Context()
	c, err := client(ctx)
	if err != nil {
		return err
	}
	cursor, err := decodeCursor(r.GetCursor())
	if err != nil {
		return err
	}
	if root := r.GetRootTaskId(); root != "" {
		if err := s.engine.CheckSeen(ctx, c.viewer, root); err != nil {
			return err
		}
	}
	waiter, err := s.hub.Wait(poll.OwnerKey(c.viewer.Owner))
	if err != nil {
		return err
	}
	defer waiter.Leave()
	w := &watch{server: s, caller: c, root: r.GetRootTaskId(), cursor: cursor, stream: stream}
	if _, err := w.send(); err != nil {
		return err
	}
	caughtUp := &taskv1.WatchCaughtUp{Cursor: encodeCursor(w.cursor)}
	if err := stream.Send(&taskv1.WatchTasksResponse{Item: &taskv1.WatchTasksResponse_CaughtUp{CaughtUp: caughtUp}}); err != nil {
		return err
	}
	return w.follow(waiter, fromDuration(r.GetMaxWait(), defaultWatch))
}

// watch is one stream of changes.
type watch struct {
	server *Server
	caller caller
	root   string
	cursor task.Cursor
	stream grpc.ServerStreamingServer[taskv1.WatchTasksResponse]
}

// follow sends what comes, until nothing has come for so long, and then the end.
func (w *watch) follow(waiter *poll.Waiter, quiet time.Duration) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-waiter.C:
			sent, err := w.send()
			if err != nil {
				return err
			}
			if sent {
				timer.Reset(quiet)
			}
			continue
		case <-timer.C:
		case <-w.server.hub.Done():
		case <-w.stream.Context().Done():
			return w.stream.Context().Err()
		}
		end := &taskv1.WatchEnd{Cursor: encodeCursor(w.cursor)}
		return w.stream.Send(&taskv1.WatchTasksResponse{Item: &taskv1.WatchTasksResponse_End{End: end}})
	}
}

// send sends all changes that there are and says whether there were any.
func (w *watch) send() (sent bool, err error) {
	for {
		found, err := w.server.engine.Changes(w.stream.Context(), w.caller.viewer, w.cursor, w.root, watchBatch)
		if err != nil {
			return sent, err
		}
		for i := range found.Changes {
			change := &found.Changes[i]
			item := &taskv1.TaskChange{
				Cursor: encodeCursor(task.Cursor{Store: found.Cursor.Store, At: change.Cursor}), Task: bare(change.Task), Purged: change.Purged,
			}
			if err := w.stream.Send(&taskv1.WatchTasksResponse{Item: &taskv1.WatchTasksResponse_Change{Change: item}}); err != nil {
				return sent, err
			}
			sent = true
		}
		w.cursor = found.Cursor
		if found.Complete {
			return sent, nil
		}
	}
}
