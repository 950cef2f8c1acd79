package run

import (
	"context"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
)

// checkpoint stages a projection of everything before it when enough has come since the last one. It is called where a commit follows anyway, which takes it
// along. What is staged already becomes durable with it or not at all; no start or end of a run may be among that, for the store has not said its time yet.
func (a *actor) checkpoint() error {
	every := int64(a.m.cfg.CheckpointEvery)
	if every <= 0 || a.state.Seq-a.saved < every {
		return nil
	}
	return a.writeCheckpoint()
}

// writeCheckpoint is checkpoint whether it is time for one or not.
func (a *actor) writeCheckpoint() error {
	a.saved = a.state.Seq // one that fails is tried again after as many events, not at every step
	p, err := checkpoint.Payload(a.context(), a.m.threads, a.state)
	if err != nil {
		if a.thread.Context().Err() != nil {
			return context.Cause(a.thread.Context())
		}
		a.log.Warn("a checkpoint could not be made, opening the thread stays slow", "error", err)
		return nil
	}
	return a.stageFor("", "", 0, p)
}
