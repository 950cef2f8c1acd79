package run

import (
	"errors"
	"fmt"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// reminder is said for the user when the model said nothing.
const reminder = "<system-reminder>Your last answer was empty. Answer the user, or call a tool.</system-reminder>"

// prepare compiles the next request, commits that it leaves, and sends it.
func (a *actor) prepare(act loop.Action) error {
	if act.Remind {
		id := fmt.Sprintf("%s/reminder/%d", a.state.Run.ID, a.state.Run.Step)
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{
			Message: loop.Text(id, threadv1.Role_ROLE_USER, loop.OriginReminder, reminder),
		}}}); err != nil {
			return err
		}
	}
	a.forced = false
	if err := a.checkpoint(); err != nil {
		return err
	}
	return a.send(act.Final, 1)
}

// resend sends the request of the open step again: its owner died, or the answer broke off.
func (a *actor) resend() error {
	r := a.state.Run
	if a.state.Stopping(a.facts()) {
		return a.stage(modelStopped(r, nil))
	}
	if a.draining() {
		return a.handOver()
	}
	return a.send(r.Step > r.Settings.MaxSteps, max(r.Model.Attempt, 1))
}

// send compiles and commits a request and starts its flight.
func (a *actor) send(final bool, attempt int32) error {
	ctx := a.context()
	name, fallback := a.kit.Models()
	resolved, err := a.m.models.Resolve(ctx, name)
	if err != nil {
		return a.fail(err, "model_not_found")
	}
	if err := a.compactIfDue(resolved); err != nil {
		return err
	}
	req, manifest, err := a.compile(resolved, final)
	if err != nil {
		return a.fail(err, "context_invalid")
	}
	req.Model = resolved.Name
	manifest.Model = resolved.Ref
	r := a.state.Run
	step := r.Step
	if r.Model == nil {
		step++
	}
	for _, p := range []*threadv1.EventPayload{
		{Kind: &threadv1.EventPayload_StepStarted{StepStarted: &threadv1.StepStarted{}}}, {Kind: &threadv1.EventPayload_RequestPrepared{RequestPrepared: manifest}},
	} {
		if err := a.stageFor(r.ID, r.TurnID, step, p); err != nil {
			return err
		}
	}
	message := fmt.Sprintf("%s/m%d", r.ID, r.Step)
	if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelDispatched{ModelDispatched: &threadv1.ModelDispatched{
		MessageId: message, Attempt: attempt, Model: resolved.Ref,
	}}}); err != nil {
		return err
	}
	if err := a.flush(false); err != nil {
		return err
	}
	return a.fly(req, resolved, fallback, message, attempt, final)
}

// compile makes the request; when it does not fit, the conversation is compacted once.
func (a *actor) compile(resolved ResolvedModel, final bool) (model.Request, *threadv1.RequestPrepared, error) {
	in := Compile{Thread: a.state, Run: a.state.Run, Model: resolved.Info, Final: final}
	req, manifest, err := a.kit.Compile(a.context(), in)
	if err == nil || !overflows(err) || a.forced {
		return req, manifest, err
	}
	a.forced = true
	if done, cerr := a.compact(resolved, triggerOverflow, 0); cerr != nil || !done {
		return req, manifest, errors.Join(err, cerr)
	}
	return a.kit.Compile(a.context(), in)
}

func overflows(err error) bool {
	kind, ok := model.KindOf(err)
	return ok && kind == model.KindContextOverflow || errdefs.ReasonOf(err) == "CONTEXT_OVERFLOW"
}

// fail ends the run because of err, unless the thread itself is lost: then another owner goes on.
func (a *actor) fail(err error, fallback string) error {
	if a.thread.Context().Err() != nil {
		return err
	}
	r := a.state.Run
	a.log.Warn("a run failed", "run", r.ID, "error", err)
	return a.end(&threadv1.RunEnded{
		State: threadv1.RunState_RUN_STATE_FAILED, Reason: reasonOf(err, fallback), Message: messageOf(err), Usage: r.Usage, Steps: int32(r.Step),
	})
}

// end commits the terminal event of the run.
func (a *actor) end(ended *threadv1.RunEnded) error {
	r := a.state.Run
	if ended.State == threadv1.RunState_RUN_STATE_COMPLETED && r.Settings.Structured {
		a.structure(ended)
	}
	if err := a.checkpoint(); err != nil {
		return err
	}
	if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: ended}}); err != nil {
		return err
	}
	if err := a.flush(false); err != nil {
		return err
	}
	a.m.remember(r, a.identity)
	a.kit, a.call, a.child, a.model = nil, nil, nil, nil
	clear(a.tools)
	return nil
}

// suspend commits that the run waits for answers, with the timers of those that expire.
func (a *actor) suspend(act loop.Action) error {
	for _, i := range act.Interactions {
		if i.GetExpireTime() == nil {
			continue
		}
		payload, err := a.m.seal(a.context(), envelope{RunID: a.state.Run.ID, ID: i.GetId()})
		if err != nil {
			return err
		}
		a.batch.Mail = append(a.batch.Mail, &threadv1.Mail{
			MessageId: "expiry/" + i.GetId(), Kind: mailExpiry, Payload: payload, NotBeforeTime: i.GetExpireTime(), Wake: true,
		})
	}
	if err := a.checkpoint(); err != nil {
		return err
	}
	if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_RunEnded{RunEnded: act.End}}); err != nil {
		return err
	}
	return a.flush(false)
}
