package run

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// takeMail does what the mailbox asks for, as far as the run is at a point where it can be done. What has to wait stays in the mailbox.
func (a *actor) takeMail() error {
	if a.mailNew {
		a.mailNew = false
		if err := a.listMail(); err != nil {
			return err
		}
	}
	now := a.m.now()
	for _, mail := range a.sorted() {
		if due := mail.GetNotBeforeTime(); due != nil && due.AsTime().After(now) {
			continue
		}
		if _, still := a.mail[mail.GetMessageId()]; !still {
			continue // consumed together with one before it
		}
		if err := a.take(mail); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) listMail() error {
	list, err := a.thread.Mail(a.context())
	if err != nil {
		if a.thread.Context().Err() == nil && transient(err) {
			return nil // looked for again soon
		}
		return err
	}
	for _, mail := range list {
		if !slices.Contains(a.batch.Consumed, mail.GetMessageId()) {
			a.mail[mail.GetMessageId()] = mail
		}
	}
	return nil
}

func (a *actor) sorted() []*threadv1.Mail {
	out := make([]*threadv1.Mail, 0, len(a.mail))
	for _, mail := range a.mail {
		out = append(out, mail)
	}
	// What stops or answers goes before what adds work: a full queue must not hide a cancel.
	slices.SortFunc(out, func(x, y *threadv1.Mail) int {
		return cmp.Or(cmp.Compare(urgency(x), urgency(y)), cmp.Compare(x.GetOrder(), y.GetOrder()))
	})
	return out
}

func urgency(mail *threadv1.Mail) int {
	switch mail.GetKind() {
	case mailCancel:
		return 0
	case mailInterrupt:
		return 1
	case mailAnswer, mailExpiry:
		return 2
	case mailSteer, mailInject, mailTaskResult:
		return 3
	}
	return 4
}

// take does what one mail asks for, or leaves it.
func (a *actor) take(mail *threadv1.Mail) error {
	if mail.GetKind() == mailTaskResult {
		return a.takeTaskResult(mail)
	}
	e, err := a.m.unseal(a.context(), mail.GetPayload())
	if err != nil {
		if transient(err) {
			return nil
		}
		a.log.Error("a mail can't be read and is dropped", "message", mail.GetMessageId(), "kind", mail.GetKind(), "error", err)
		a.consume(mail.GetMessageId())
		return a.stage(notice("error", "MAIL_UNREADABLE", "A message of kind "+mail.GetKind()+" could not be read and was dropped."))
	}
	switch mail.GetKind() {
	case mailCancel:
		return a.takeCancel(mail, e)
	case mailInterrupt:
		return a.takeInterrupt(mail, e)
	case mailAnswer, mailExpiry:
		return a.takeAnswer(mail, e)
	case mailSteer, mailInject:
		return a.takeSteer(mail, e)
	case mailInput, mailWakeUp:
		return a.takeInput(mail, e)
	default:
		a.consume(mail.GetMessageId())
		return a.stage(notice("warning", "MAIL_UNKNOWN", "A message of the unknown kind "+mail.GetKind()+" was dropped."))
	}
}

func (a *actor) takeCancel(mail *threadv1.Mail, e envelope) error {
	a.consume(mail.GetMessageId())
	r := a.state.Run
	if r != nil && r.ID == e.RunID {
		if r.Cancel != nil {
			return nil
		}
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_CancelRequested{
			CancelRequested: &threadv1.CancelRequested{Reason: e.Text, Actor: e.Actor},
		}}); err != nil {
			return err
		}
		// Requested is a fact of its own: it is told before anything has stopped.
		a.stopFlights(errStopped)
		if err := a.flush(false); err != nil {
			return err
		}
		a.cancelTasks()
		return nil
	}
	if queued := a.queued(e.RunID); queued != nil {
		a.consume(queued.GetMessageId())
		return a.endUnstarted(e.RunID, threadv1.RunState_RUN_STATE_CANCELLED, loop.ReasonCancelled, e.Text)
	}
	return nil
}

// queued is the input in the mailbox that will start a run; nil when there is none.
func (a *actor) queued(run string) *threadv1.Mail {
	for _, mail := range a.sorted() {
		if mail.GetKind() != mailInput {
			continue
		}
		if in, err := a.m.unseal(a.context(), mail.GetPayload()); err == nil && in.RunID == run {
			return mail
		}
	}
	return nil
}

// endUnstarted gives a run that never started its terminal event.
func (a *actor) endUnstarted(run string, state threadv1.RunState, reason, message string) error {
	if err := a.stageFor(run, "", 0, &threadv1.EventPayload{Kind: &threadv1.EventPayload_RunEnded{
		RunEnded: &threadv1.RunEnded{State: state, Reason: reason, Message: message},
	}}); err != nil {
		return err
	}
	return a.flush(false)
}

// takeInterrupt stops the step. The partial answer comes into the conversation before the text that interrupted it, so a model request is ended first.
func (a *actor) takeInterrupt(mail *threadv1.Mail, e envelope) error {
	r := a.state.Run
	if r == nil || (e.RunID != "" && r.ID != e.RunID) || r.Cancel != nil {
		if a.queued(e.RunID) == nil { // else it waits for its run
			a.consume(mail.GetMessageId())
		}
		return nil
	}
	if r.Model != nil {
		if a.model != nil {
			a.model.cancel(errStopped)
			return nil
		}
		if err := a.stage(modelStopped(r, nil)); err != nil {
			return err
		}
	}
	a.consume(mail.GetMessageId())
	return a.stage(steer(loop.SteerInterrupt, mail.GetMessageId(), e.Text))
}

func (a *actor) takeSteer(mail *threadv1.Mail, e envelope) error {
	r := a.state.Run
	if r == nil || (e.RunID != "" && r.ID != e.RunID) {
		return a.steerWithoutRun(mail, e)
	}
	if r.Model != nil || len(r.Calls) > 0 || r.Cancel != nil || r.Interrupted && r.Stop {
		return nil // waits for the step border; behind a cancel it becomes a run of its own
	}
	a.consume(mail.GetMessageId())
	kind := loop.SteerSteer
	if mail.GetKind() == mailInject {
		kind = loop.SteerInject
	}
	return a.stage(steer(kind, mail.GetMessageId(), e.Text))
}

// steerWithoutRun takes a text that came when its run had ended: what was accepted is not lost. A steering text starts a run, a note joins the conversation.
func (a *actor) steerWithoutRun(mail *threadv1.Mail, e envelope) error {
	if a.state.Run != nil || a.queued(e.RunID) != nil {
		return nil
	}
	if mail.GetKind() == mailInject {
		a.consume(mail.GetMessageId())
		return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{
			Message: loop.Text(mail.GetMessageId(), threadv1.Role_ROLE_USER, loop.OriginInject, e.Text),
		}}})
	}
	if e.Input == nil {
		raw, err := inputBytes(&orchestratorv1.RunInput{Text: e.Text})
		if err != nil {
			return err
		}
		e.Input, e.RunID, e.Cause = raw, runID(a.key, mail.GetMessageId()), CauseSteer
		if e.Scope == "" && a.state.Latest != nil {
			e.Scope = IdentityOf(a.state.Latest.Started.GetIdentity()).Scope.String()
		}
	}
	if e.Cause == "" {
		e.Cause = CauseSteer
	}
	if e.Child == nil && e.RequestID != "" {
		e.RunID = runID(a.key, e.RequestID)
	}
	return a.startRun(mail, e)
}

func (a *actor) takeInput(mail *threadv1.Mail, e envelope) error {
	if a.state.Knows(e.RunID) && (a.state.Run == nil || a.state.Run.ID != e.RunID) {
		a.consume(mail.GetMessageId()) // a repeat of a run that is over
		return nil
	}
	r := a.state.Run
	if r == nil {
		return a.startRun(mail, e)
	}
	in, err := e.input()
	if err != nil {
		return err
	}
	if in.GetBusyPolicy() == orchestratorv1.BusyPolicy_BUSY_POLICY_REFUSE {
		a.consume(mail.GetMessageId())
		return a.endUnstarted(e.RunID, threadv1.RunState_RUN_STATE_FAILED, reasonBusy, "the thread has the run "+r.ID)
	}
	if r.State == threadv1.RunState_RUN_STATE_SUSPENDED && r.Cancel == nil {
		return a.supersede(e)
	}
	return nil // queued
}

// supersede ends a suspended run because its person said something else instead of answering: what was open counts as declined. A thread that waits for
// an answer must not refuse everything else for ever.
func (a *actor) supersede(e envelope) error {
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_CancelRequested{
		CancelRequested: &threadv1.CancelRequested{Reason: "superseded by run " + e.RunID, Actor: e.Actor},
	}})
}

func (a *actor) takeTaskResult(mail *threadv1.Mail) error {
	result := &threadv1.TaskDelivered{}
	if err := parseTaskResult(mail.GetPayload(), result); err != nil {
		a.log.Error("a task's result can't be read and is dropped", "message", mail.GetMessageId(), "error", err)
		a.consume(mail.GetMessageId())
		return nil
	}
	result.MessageId = mail.GetMessageId()
	r := a.state.Run
	if !a.state.OpenTask(result.GetTaskId()) {
		// Delivered already, by the call that waited for it. A result of a task whose start is being journaled right now waits for that.
		if r == nil || !a.taskStarting() {
			a.consume(mail.GetMessageId())
		}
		return nil
	}
	switch {
	case r == nil && !mail.GetWake():
		return nil // read with the next run
	case r == nil:
		return a.wakeUp(mail, result)
	case !a.state.TakesResult(a.facts()):
		return nil // waits for the step border, or for the end of a run that would not read it
	}
	a.consume(mail.GetMessageId())
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: result}})
}

// taskStarting says that a call which may have created a task works.
func (a *actor) taskStarting() bool {
	for _, c := range a.state.Run.Calls {
		if c.Dispatched.GetEffectKind() == "task" && c.Result == nil {
			return true
		}
	}
	return false
}

func (a *actor) takeAnswer(mail *threadv1.Mail, e envelope) error {
	a.consume(mail.GetMessageId())
	r := a.state.Run
	if r == nil {
		return nil
	}
	c := r.ByInteraction(e.ID)
	if c == nil || !c.Waiting() {
		return nil // answered or closed already: the first answer counts
	}
	if mail.GetKind() == mailExpiry {
		return a.stage(resolved(&threadv1.InteractionResolved{InteractionId: e.ID, Resolution: loop.Expired}))
	}
	var ans answer
	if err := json.Unmarshal(e.Answer, &ans); err != nil {
		return a.stage(notice("error", "ANSWER_UNREADABLE", "An answer could not be read and was dropped."))
	}
	return a.resolve(c, ans, e.Actor)
}

var zeroTime time.Time
