package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// maxBreaks is how often an answer that breaks off in the middle is asked for again.
const maxBreaks = 2

// modelFlight is a model request that works.
type modelFlight struct {
	cancel   context.CancelCauseFunc
	message  string
	attempt  atomic.Int32
	final    bool
	started  time.Time
	resolved ResolvedModel
}

// modelNews is what a flight tells the actor: an attempt that failed and will be repeated, or the end.
type modelNews struct {
	flight  *modelFlight
	retried *threadv1.ModelRetried
	resp    model.Response
	err     error
	first   time.Duration
}

// fly sends a request whose dispatch is committed.
func (a *actor) fly(req model.Request, resolved ResolvedModel, fallback, message string, attempt int32, final bool) error {
	ctx, cancel := context.WithCancelCause(a.context())
	f := &modelFlight{cancel: cancel, message: message, final: final, started: a.m.now(), resolved: resolved}
	f.attempt.Store(attempt)
	provider, err := a.wrap(ctx, resolved, fallback, f)
	if err != nil {
		cancel(nil)
		return a.fail(err, "model_not_found")
	}
	a.model = f
	run := a.state.Run.ID
	a.m.work.Go(func() {
		defer cancel(nil)
		resp, first, err := a.stream(ctx, provider, req, run, f)
		a.tellModel(modelNews{flight: f, resp: resp, err: err, first: first})
	})
	return nil
}

// tellModel hands news to the actor, unless the actor has gone.
func (a *actor) tellModel(news modelNews) {
	select {
	case a.modelNews <- news:
	case <-a.thread.Context().Done():
	}
}

// wrap puts time limits, retries and the fallback around the provider.
func (a *actor) wrap(ctx context.Context, resolved ResolvedModel, fallback string, f *modelFlight) (model.Provider, error) {
	guard := func(p model.Provider, ref string) model.Provider {
		policy := a.m.cfg.ModelRetry
		policy.Retried = func(_ int, wait time.Duration, err error) {
			failed := f.attempt.Add(1) - 1
			a.tellModel(modelNews{flight: f, retried: &threadv1.ModelRetried{
				MessageId: f.message, Attempt: failed, Reason: reasonOf(err, "model_error"), Delay: durationpb.New(wait), NextModel: ref,
			}})
		}
		return model.Retry(model.WithTimeouts(p, a.m.cfg.ModelTimeouts), policy)
	}
	p := guard(resolved.Provider, resolved.Ref)
	if fallback == "" {
		return p, nil
	}
	second, err := a.m.models.Resolve(ctx, fallback)
	if err != nil {
		return nil, err
	}
	return model.Fallback(p, func(to model.Target, err error) {
		failed := f.attempt.Add(1) - 1
		a.tellModel(modelNews{flight: f, retried: &threadv1.ModelRetried{
			MessageId: f.message, Attempt: failed, Reason: reasonOf(err, "model_error"), NextModel: second.Ref,
		}})
	}, model.Target{Provider: guard(second.Provider, second.Ref), Model: second.Name}), nil
}

// stream reads the answer and hands its text on as it comes.
func (a *actor) stream(ctx context.Context, provider model.Provider, req model.Request, run string, f *modelFlight) (resp model.Response, first time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the model provider panicked: %v", p)
		}
	}()
	s, err := provider.Generate(ctx, req)
	if err != nil {
		return model.Response{}, 0, err
	}
	defer s.Close()
	var acc model.Accumulator
	offsets := map[bool]int64{}
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return acc.Response(), first, nil
		}
		if err != nil {
			return acc.Partial(), first, err
		}
		if first == 0 {
			first = a.m.now().Sub(f.started)
		}
		acc.Add(ev)
		if ev.Type != model.EventText && ev.Type != model.EventThinking || ev.Text == "" {
			continue
		}
		thinking := ev.Type == model.EventThinking
		a.hub.delta(run, &orchestratorv1.TextDelta{
			MessageId: f.message, Attempt: f.attempt.Load(), OffsetBytes: offsets[thinking], Text: ev.Text, Thinking: thinking,
		})
		offsets[thinking] += int64(len(ev.Text))
	}
}

// modelTold takes news of a flight.
func (a *actor) modelTold(news modelNews) error {
	r := a.state.Run
	if a.model == nil || news.flight != a.model || r == nil || r.Model == nil {
		return nil // of a request that nobody waits for any more
	}
	if news.retried != nil {
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: news.retried}}); err != nil {
			return err
		}
		return a.flush(false)
	}
	f := a.model
	a.model = nil
	if news.err != nil {
		return a.modelFailed(f, news)
	}
	return a.modelAnswered(f, news)
}

func (a *actor) modelAnswered(f *modelFlight, news modelNews) error {
	r := a.state.Run
	message := a.answerMessage(f, news.resp)
	payload := &threadv1.ModelEnded{
		Message: message, Attempt: f.attempt.Load(), FinishReason: string(news.resp.Finish), Usage: a.usage(f.resolved, news.resp.Usage),
		FirstTokenLatency: durationpb.New(news.first), Latency: durationpb.New(a.m.now().Sub(f.started)),
	}
	if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: payload}}); err != nil {
		return err
	}
	for _, c := range r.Calls {
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ToolRequested{ToolRequested: &threadv1.ToolRequested{Call: c.Call, Ordinal: c.Ordinal}}}); err != nil {
			return err
		}
	}
	return nil
}

// modelFailed decides what an answer that did not come leads to.
func (a *actor) modelFailed(f *modelFlight, news modelNews) error {
	r := a.state.Run
	facts := a.facts()
	switch {
	case a.thread.Context().Err() != nil:
		return context.Cause(a.thread.Context())
	case a.interrupted(news.err, facts):
		partial := a.answerMessage(f, news.resp)
		return a.stage(modelStopped(r, partial))
	case overflows(news.err) && !a.forced:
		a.forced = true
		if err := a.retrying(f, "context_overflow"); err != nil {
			return err
		}
		done, err := a.compact(f.resolved, triggerOverflow, 0)
		if err != nil || a.state.Run == nil {
			return err
		}
		if !done {
			return a.fail(news.err, "context_overflow")
		}
		return a.send(f.final, r.Model.Attempt)
	case model.Retryable(news.err) && len(news.resp.Message.Blocks) > 0 && f.attempt.Load() <= maxBreaks:
		if err := a.retrying(f, reasonOf(news.err, "model_error")); err != nil {
			return err
		}
		return a.send(f.final, r.Model.Attempt)
	case f.final && len(a.state.Messages()) > 0:
		return a.finalFailed(f, news.err)
	}
	return a.fail(news.err, "model_error")
}

// interrupted says that the request was ended by the run itself: by a cancel, a budget, or an interrupt that waits in the mailbox.
func (a *actor) interrupted(err error, facts loop.Facts) bool {
	return errors.Is(err, errStopped) || errors.Is(err, context.Canceled) || a.state.Stopping(facts)
}

func (a *actor) retrying(f *modelFlight, reason string) error {
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelRetried{ModelRetried: &threadv1.ModelRetried{
		MessageId: f.message, Attempt: f.attempt.Load(), Reason: reason, NextModel: f.resolved.Ref,
	}}})
}

// finalFailed closes a run whose last summarising request failed: the work is done, only its summary is missing, and that is what is said.
func (a *actor) finalFailed(f *modelFlight, err error) error {
	text := fmt.Sprintf("The limit of %d steps was reached, and the summary could not be made: %s", a.state.Run.Settings.MaxSteps, messageOf(err))
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelEnded{ModelEnded: &threadv1.ModelEnded{
		Message: loop.Text(f.message, threadv1.Role_ROLE_ASSISTANT, "", text), Attempt: f.attempt.Load(), FinishReason: string(model.FinishStop), Usage: &threadv1.Usage{Requests: 1},
	}}})
}

// answerMessage turns an answer into a message. Ids of calls become unique within the thread; a call that came twice counts once; a last request has no calls.
func (a *actor) answerMessage(f *modelFlight, resp model.Response) *threadv1.Message {
	m := &threadv1.Message{Id: f.message, Role: threadv1.Role_ROLE_ASSISTANT}
	type twin struct{ id, name, arguments string }
	seen, ids := map[twin]bool{}, map[string]bool{}
	for _, b := range resp.Message.Blocks {
		switch b.Type {
		case model.BlockText:
			m.Blocks = append(m.Blocks, loop.TextBlock(b.Text))
		case model.BlockThinking:
			m.Blocks = append(m.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_Thinking{Thinking: &threadv1.Thinking{Text: b.Text}}})
		case model.BlockToolCall:
			c := b.ToolCall
			t := twin{c.ID, c.Name, string(c.Arguments)}
			if f.final || c.ID != "" && seen[t] {
				continue
			}
			seen[t] = true
			id := c.ID
			if id == "" || len(id) > 128 || ids[id] || a.state.CallIDKnown(id) {
				id = fmt.Sprintf("%s/c%d", f.message, len(ids))
			}
			ids[id] = true
			m.Blocks = append(m.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_ToolCall{
				ToolCall: &threadv1.ToolCall{Id: id, Name: c.Name, ArgumentsJson: string(c.Arguments)},
			}})
		}
	}
	return m
}

func (a *actor) usage(resolved ResolvedModel, u model.Usage) *threadv1.Usage {
	out := &threadv1.Usage{InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), CachedTokens: int64(u.CachedInputTokens), Requests: 1}
	if price, ok := a.m.cfg.Prices[resolved.Ref]; ok {
		out.CostMicros = price.cost(out)
	}
	return out
}
