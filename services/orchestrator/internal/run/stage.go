package run

import (
	"errors"
	"strconv"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// stage puts events of the open run into the batch and applies them to the state. They are not durable, and nobody sees them, before flush.
func (a *actor) stage(payloads ...*threadv1.EventPayload) error {
	run, turn, step := "", "", 0
	if r := a.state.Run; r != nil {
		run, turn, step = r.ID, r.TurnID, r.Step
	}
	for _, p := range payloads {
		if err := a.stageFor(run, turn, step, p); err != nil {
			return err
		}
	}
	return nil
}

// stageFor is stage for another run than the open one.
func (a *actor) stageFor(run, turn string, step int, p *threadv1.EventPayload) error {
	a.numbers++
	ev := journal.NewEvent(a.thread.Epoch(), a.numbers, run, turn, step, p, a.m.now())
	ev.Seq = a.state.Seq + 1
	err := a.state.Apply(ev)
	if back := (*loop.Rewinding)(nil); errors.As(err, &back) && a.past != nil {
		err = a.state.Rewind(ev, a.past)
	}
	if err != nil {
		return err
	}
	a.batch.Events = append(a.batch.Events, ev)
	// A batch has at most 256 events; half of that leaves room for what one action stages.
	if len(a.batch.Events) >= 128 {
		return a.flush(false)
	}
	return nil
}

// consume takes a mail out of the mailbox with the next commit.
func (a *actor) consume(id string) {
	a.batch.Consumed = append(a.batch.Consumed, id)
	delete(a.mail, id)
}

// flush commits the batch and then tells everybody.
func (a *actor) flush(release bool) error {
	batch := a.batch
	batch.Release = release
	batch.Mark = a.mark()
	if len(batch.Events)+len(batch.Consumed)+len(batch.Mail) == 0 && batch.Mark == nil && !release {
		return nil
	}
	a.batch, a.stagedAt = journal.Batch{}, zeroTime
	done, err := a.thread.Commit(batch)
	if err != nil {
		return err
	}
	for _, ev := range batch.Events {
		a.state.Stamp(ev)
	}
	a.show()
	a.hub.events(batch.Events)
	for _, mail := range done.Mail {
		a.mail[mail.GetMessageId()] = mail
	}
	return nil
}

// mark tells the store what happened to the open run since the last commit.
func (a *actor) mark() *threadv1.RunMark {
	r := a.state.Run
	if r == nil {
		r = a.state.Latest
		if r == nil || a.marked == threadv1.RunState_RUN_STATE_UNSPECIFIED || loop.Terminal(a.marked) {
			return nil
		}
	}
	if r.State == a.marked {
		return nil
	}
	a.marked = r.State
	return &threadv1.RunMark{RunId: r.ID, State: r.State, TaskId: r.Started.GetTaskId()}
}

func journalGap(have, want int64) error {
	return errdefs.New(errdefs.ErrDataLoss, threadDomain, "JOURNAL_DAMAGED", "the journal ends at event %d and should end at %d", have, want).
		With("seq", strconv.FormatInt(have, 10))
}
