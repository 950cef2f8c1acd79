// Package task is the task service: the truth about work in the background, behind gantry.task.v1.TaskService.
//
// Anyone of a tenant asks for work (CreateTask); workers lease it, keep the lease by heartbeats, and report the end; the result goes to the mailbox of the thread that asked. The service
// decides what may happen to a task (package internal/task, a pure state machine), keeps it durably (internal/backend), lets time happen (internal/keeper) and posts results until
// they are accepted (internal/courier). It does no work itself and knows no kind of work.
//
// To read it: the proto, docs/state-machine.md, internal/task/machine.go, internal/task/store.go, one backend, tasktest.
package task
