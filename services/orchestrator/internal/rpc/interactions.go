package rpc

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/kit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

func (s *runServer) ListInteractions(ctx context.Context, req *orchestratorv1.ListInteractionsRequest) (*orchestratorv1.ListInteractionsResponse, error) {
	sessions, err := s.sessions(ctx, req.GetAllThreads())
	if err != nil {
		return nil, err
	}
	var open []*orchestratorv1.PendingInteraction
	for _, session := range sessions {
		found, err := s.pending(inSession(ctx, session), session, 0)
		if err != nil {
			return nil, err
		}
		open = append(open, found...)
	}
	list, next, err := page(open, "interactions", req.GetPageSize(), req.GetPageToken())
	return &orchestratorv1.ListInteractionsResponse{Interactions: list, NextPageToken: next}, err
}

// sessions lists the threads to look at: the caller's, or all that have a run that waits.
func (s *runServer) sessions(ctx context.Context, all bool) ([]string, error) {
	if !all {
		key, err := identity.ThreadFromContext(ctx)
		return []string{key.Session}, err
	}
	var out []string
	for token := ""; ; {
		resp, err := s.Threads.List(ctx, &threadv1.ListRequest{PageSize: 500, PageToken: token})
		if err != nil {
			return nil, err
		}
		for _, h := range resp.GetHeads() {
			if h.GetOpenRunId() != "" && h.GetTaskId() == "" { // those of tasks are found through their parents
				out = append(out, h.GetThread().GetSession())
			}
		}
		if token = resp.GetNextPageToken(); token == "" || len(out) >= maxPage {
			return out, nil
		}
	}
}

func inSession(ctx context.Context, session string) context.Context {
	id, _ := identity.FromContext(ctx)
	id.Session = session
	return identity.NewContext(ctx, id)
}

// pending lists what a thread and the children that it waits for ask.
func (s *runServer) pending(ctx context.Context, session string, depth int) ([]*orchestratorv1.PendingInteraction, error) {
	asks, err := s.Runs.Asks(ctx)
	if err != nil {
		return nil, err
	}
	var out []*orchestratorv1.PendingInteraction
	for _, a := range asks.List {
		if a.Open() {
			out = append(out, &orchestratorv1.PendingInteraction{Interaction: a.Interaction, Session: session, RunId: a.RunID})
		}
	}
	for _, t := range asks.Tasks {
		child := t.Started.GetChildThread().GetSession()
		if t.Ended || child == "" || depth >= kit.MaxDepth {
			continue
		}
		below, err := s.pending(inSession(ctx, child), child, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// place is where an interaction was found.
type place struct {
	run.Asked
	ctx context.Context
}

// find looks for an interaction on the caller's thread and on those of its children, so that an answer given at the top reaches the call that asked.
func (s *runServer) find(ctx context.Context, id string, depth int) (place, bool, error) {
	asks, err := s.Runs.Asks(ctx)
	if err != nil {
		return place{}, false, err
	}
	if a, ok := asks.Find(id); ok {
		return place{a, ctx}, true, nil
	}
	for _, t := range asks.Tasks {
		child := t.Started.GetChildThread().GetSession()
		if child == "" || depth >= kit.MaxDepth {
			continue
		}
		if p, ok, err := s.find(inSession(ctx, child), id, depth+1); ok || err != nil {
			return p, ok, err
		}
	}
	return place{}, false, nil
}

func (s *runServer) ResolveInteractions(ctx context.Context, req *orchestratorv1.ResolveInteractionsRequest) (*orchestratorv1.ResolveInteractionsResponse, error) {
	places := make([]place, 0, len(req.GetAnswers()))
	for _, a := range req.GetAnswers() {
		p, ok, err := s.find(ctx, a.GetInteractionId(), 0)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, errdefs.New(errdefs.ErrNotFound, run.Domain, "INTERACTION_NOT_FOUND", "there is no such interaction").With("interaction_id", a.GetInteractionId())
		}
		if err := check(p.Asked, a); err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	id, _ := identity.FromContext(ctx)
	for i, a := range req.GetAnswers() {
		if !places[i].Open() {
			continue // the same answer again
		}
		if err := s.answer(places[i], a, id.User); err != nil {
			return nil, err
		}
	}
	for i, a := range req.GetAnswers() {
		if err := s.Runs.Answered(places[i].ctx, []string{a.GetInteractionId()}); err != nil {
			return nil, err
		}
	}
	r, err := s.Runs.Get(places[0].ctx, places[0].RunID)
	return &orchestratorv1.ResolveInteractionsResponse{Run: r}, err
}

// decisions are those that each kind of interaction can be answered with.
var decisions = map[string][]string{
	loop.KindApproval: {"approve", "deny"}, loop.KindQuestion: {"answer", "deny"}, loop.KindClientTool: {"result", "deny"}, loop.KindUnknown: {"retry", "skip", "fail"},
}

// resolutionOf is the resolution that a decision leads to.
var resolutionOf = map[string]string{
	"approve": loop.Approved, "deny": loop.Denied, "answer": loop.AnsweredR, "result": loop.AnsweredR, "retry": loop.Retry, "skip": loop.Skip, "fail": loop.Fail,
}

// check refuses answers that do not fit, and those to what was answered otherwise.
func check(a run.Asked, ans *orchestratorv1.InteractionAnswer) error {
	i := a.Interaction
	if !slices.Contains(decisions[i.GetKind()], ans.GetDecision()) {
		return invalid("decision", "an interaction of kind %s can't be answered with %q, only with %v", i.GetKind(), ans.GetDecision(), decisions[i.GetKind()])
	}
	if !a.Open() {
		if a.Resolution.GetResolution() == resolutionOf[ans.GetDecision()] && sameText(a.Resolution, ans) {
			return nil
		}
		return errdefs.New(errdefs.ErrFailedPrecondition, run.Domain, "INTERACTION_CLOSED", "the interaction is closed: %s", a.Resolution.GetResolution()).
			With("interaction_id", i.GetId()).With("resolution", a.Resolution.GetResolution())
	}
	if ans.GetDecision() == "answer" {
		return checkChoices(i, ans.GetAnswers())
	}
	if ans.GetDecision() == "result" && ans.GetResult() == nil {
		return invalid("result", "the result of the client tool is missing")
	}
	return nil
}

func sameText(r *threadv1.InteractionResolved, ans *orchestratorv1.InteractionAnswer) bool {
	switch ans.GetDecision() {
	case "answer":
		return r.GetAnswer() == "" || r.GetAnswer() == joinLines(ans.GetAnswers())
	case "result":
		return r.GetResult().GetText() == ans.GetResult().GetText()
	}
	return true
}

func checkChoices(i *threadv1.Interaction, answers []string) error {
	switch {
	case len(answers) == 0:
		return invalid("answers", "an answer needs a text")
	case len(answers) > 1 && !i.GetMultiple():
		return invalid("answers", "the question takes one answer")
	case len(i.GetChoices()) == 0:
		return nil
	}
	for _, text := range answers {
		if !slices.Contains(i.GetChoices(), text) {
			return invalid("answers", "%q is not one of the choices", text)
		}
	}
	return nil
}

func joinLines(lines []string) string {
	out := ""
	for i, l := range lines {
		if i > 0 {
			out += "\n"
		}
		out += l
	}
	return out
}

// answer sends an answer to where it is waited for: the thread, or, for a run of a task, the task, whose next worker brings it to the thread.
func (s *runServer) answer(p place, a *orchestratorv1.InteractionAnswer, who string) error {
	if p.TaskID != "" && s.Tasks != nil {
		return s.respondTask(p, a)
	}
	key, err := identity.ThreadFromContext(p.ctx)
	if err != nil {
		return err
	}
	ans := run.Answer{Decision: a.GetDecision(), Edited: a.GetEditedArgumentsJson(), Rule: a.GetRememberRule(), Answers: a.GetAnswers(), Reason: a.GetReason()}
	if a.GetResult() != nil {
		if ans.Result, err = proto.Marshal(a.GetResult()); err != nil {
			return err
		}
	}
	return s.Runs.Respond(p.ctx, key, p.Interaction.GetId(), ans, who)
}

func (s *runServer) respondTask(p place, a *orchestratorv1.InteractionAnswer) error {
	texts := a.GetAnswers()
	if a.GetDecision() == "deny" && a.GetReason() != "" {
		texts = []string{a.GetReason()}
	}
	data := map[string]any{}
	if e := a.GetEditedArgumentsJson(); e != "" {
		data["edited_arguments_json"] = e
	}
	if r := a.GetRememberRule(); r != "" {
		data["remember_rule"] = r
	}
	if r := a.GetResult(); r != nil {
		data["result"] = map[string]any{"status": r.GetStatus().String(), "text": r.GetText(), "reason": r.GetReason()}
	}
	fields, err := structpb.NewStruct(data)
	if err != nil {
		return err
	}
	req := &taskv1.RespondTaskRequest{TaskId: p.TaskID, Answers: []*taskv1.InteractionAnswer{{
		InteractionId: p.Interaction.GetId(), Decision: a.GetDecision(), Texts: texts, Data: fields,
	}}}
	// The thread tells of a question a moment before its worker has told the task service.
	deadline := time.Now().Add(respondWithin)
	for {
		_, err = s.Tasks.RespondTask(p.ctx, req)
		if errdefs.ReasonOf(err) != "INTERACTION_NOT_FOUND" || time.Now().After(deadline) {
			return err
		}
		select {
		case <-time.After(respondEvery):
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

// How long, and how often, an answer is offered to a task whose question is not known there yet.
const (
	respondWithin = 5 * time.Second
	respondEvery  = 20 * time.Millisecond
)
