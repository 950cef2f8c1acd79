package journal

import "time"

// Next returns the open run after a mark.
func (r Run) Next(mark Run) Run {
	switch mark.State {
	case RunRunning, RunSuspended:
		return mark
	case RunEnded:
		if r.ID == mark.ID {
			return Run{}
		}
	}
	return r
}

// DueAt returns when a thread without an owner becomes due: at once (the zero time) for a run that is open and not suspended, else when its first
// waking message does (wake; [Never] when there is none). A run that works for a task is looked after by the task's worker.
func DueAt(run Run, wake time.Time) time.Time {
	switch {
	case run.ID != "" && run.TaskID != "":
		return Never
	case run.State == RunRunning:
		return time.Time{}
	}
	return wake
}
