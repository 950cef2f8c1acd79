package run

import (
	"context"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/compact"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

const triggerOverflow = compact.TriggerOverflow

func (a *actor) limits(resolved ResolvedModel, keep int) compact.Limits {
	s := a.kit.Compaction()
	l := compact.Limits{Window: resolved.Info.ContextTokens, Messages: s.Messages, Reserve: s.ReserveTokens, Keep: s.KeepMessages}
	if keep > 0 {
		l.Keep = keep
	}
	return l
}

// compactIfDue summarises the front of the conversation when it has grown too long.
func (a *actor) compactIfDue(resolved ResolvedModel) error {
	trigger, due := compact.Due(a.state.Conversation, a.limits(resolved, 0))
	if !due {
		return nil
	}
	_, err := a.compact(resolved, trigger, 0)
	return err
}

// compact replaces the front of the conversation by a summary. done is false when there was nothing to gain or no summary could be made: then the
// conversation is as it was. An error is the loss of the thread.
func (a *actor) compact(resolved ResolvedModel, trigger string, keep int) (done bool, err error) {
	entries := a.state.Conversation
	cut := compact.Cut(entries, a.limits(resolved, keep))
	if cut == 0 {
		return false, nil
	}
	front, rest := entries[:cut], entries[cut:]
	summary, err := a.summarise(resolved, front)
	if err != nil {
		if a.thread.Context().Err() != nil {
			return false, context.Cause(a.thread.Context())
		}
		a.log.Warn("the conversation could not be summarised and stays as it is", "error", err)
		return false, a.stage(notice("warning", "COMPACTION_FAILED", "The conversation could not be summarised and stays as it is: "+messageOf(err)))
	}
	message := compact.Message(front, rest, summary)
	before := compact.Tokens(entries)
	after := compact.Tokens(rest) + compact.MessageTokens(message)
	if after >= before {
		return false, nil // no progress
	}
	return true, a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_CompactionApplied{CompactionApplied: &threadv1.CompactionApplied{
		ThroughSeq: front[len(front)-1].Seq, Summary: message, TokensBefore: int32(before), TokensAfter: int32(after), Trigger: trigger,
	}}})
}

// summarise asks the run's model, or goes by rules where there is none.
func (a *actor) summarise(resolved ResolvedModel, front []loop.Entry) (string, error) {
	if model.Unwrap(resolved.Provider).Name() == model.OfflineName {
		return compact.ByRules(front), nil
	}
	if err := a.flush(false); err != nil { // what is staged must not wait for a model
		return "", err
	}
	provider := model.Retry(model.WithTimeouts(resolved.Provider, a.m.cfg.ModelTimeouts), a.m.cfg.ModelRetry)
	var summary string
	err := a.interruptible(func(ctx context.Context) (err error) {
		summary, err = compact.Summarise(ctx, front, resolved.Info.ContextTokens, func(ctx context.Context, req model.Request) (model.Response, error) {
			req.Model = resolved.Name
			s, err := provider.Generate(ctx, req)
			if err != nil {
				return model.Response{}, err
			}
			return model.Collect(s)
		})
		return err
	})
	return summary, err
}

// interruptible does something slow in the middle of a step. A cancel or an interrupt that comes meanwhile ends it, and is taken after it.
func (a *actor) interruptible(do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(a.context())
	defer cancel(nil)
	done := make(chan error, 1)
	a.m.work.Go(func() { done <- do(ctx) })
	for {
		select {
		case err := <-done:
			return err
		case <-a.nudge:
			if err := a.listMail(); err != nil {
				return err
			}
			for _, mail := range a.mail {
				if urgency(mail) <= 1 {
					cancel(errStopped)
				}
			}
		}
	}
}
