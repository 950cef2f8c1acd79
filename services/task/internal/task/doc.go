// Package task is what the task service is about, without gRPC and without a database: the task, its state machine, the port to the store and the engine between them.
//
// The words:
//
//   - a task is work that somebody asked for; it is in exactly one [State];
//   - an event is something that happens to a task: a lease, a heartbeat, a finish, a cancel, the passing of time. [Apply] is the state machine: a pure function of task,
//     event and time. Nothing else ever changes a task;
//   - a [Decision] is what follows from an event outside of the task: tell the parent, end the children, wake workers;
//   - a lease gives a task to one worker; its fencing token rises with every lease, and a worker's call counts only with the present one. Time never fences: an
//     expired lease is good until the sweep has taken it away;
//   - the [Store] keeps tasks, changes, effects and mail; the [Engine] does each call in one transaction of it.
//
// The state machine is drawn in docs/state-machine.md of the service.
package task
