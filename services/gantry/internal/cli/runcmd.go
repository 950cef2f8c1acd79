package cli

import (
	"context"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// RunCmd works with runs.
type RunCmd struct {
	Attach RunAttach `cmd:"" help:"Follow a run: what it did, then what it does."`
	List   RunList   `cmd:"" help:"List the runs of a session."`
	Show   RunShow   `cmd:"" help:"Show a run."`
	Cancel RunCancel `cmd:"" help:"Ask a run to end for good."`
	Steer  RunSteer  `cmd:"" help:"Give a working run a word."`
	Answer RunAnswer `cmd:"" help:"Answer what a run waits for."`
}

// RunRef names a run.
type RunRef struct {
	Target
	ID string `arg:"" optional:"" default:"latest" help:"Run. latest: the newest of the session."`
}

// RunAttach follows a run.
type RunAttach struct {
	RunRef
	After int64 `help:"Only what comes after this sequence."`
}

// Run streams it.
func (c *RunAttach) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Runs.AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: c.ID, AfterSeq: c.After})
		if err != nil {
			return err
		}
		return show(env, c.JSON, received(stream))
	})
}

// RunList lists runs.
type RunList struct{ Target }

// Run lists them.
func (c *RunList) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Runs.ListRuns(ctx, &orchestratorv1.ListRunsRequest{PageToken: token})
			if err != nil {
				return "", err
			}
			for _, run := range got.GetRuns() {
				if err := c.run(env, run); err != nil {
					return "", err
				}
			}
			return got.GetNextPageToken(), nil
		})
	})
}

// RunShow shows a run.
type RunShow struct{ RunRef }

// Run shows it.
func (c *RunShow) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Runs.GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: c.ID})
		if err != nil {
			return err
		}
		return c.run(env, got.GetRun())
	})
}

// run prints a run.
func (t *Target) run(env *Env, run *orchestratorv1.Run) error {
	if t.JSON {
		return env.JSON(run)
	}
	env.Line("%s  %s  %s  %d steps  %s", run.GetId(), strings.ToLower(strings.TrimPrefix(run.GetState().String(), "RUN_STATE_")),
		run.GetStartTime().AsTime().Format("2006-01-02 15:04:05"), run.GetSteps(), oneLine(run.GetText()+run.GetMessage(), maxShown))
	for _, i := range run.GetInteractions() {
		env.Line("  waits: %s %s: %s", i.GetId(), i.GetKind(), oneLine(i.GetPrompt(), maxShown))
	}
	return nil
}

// RunCancel cancels a run.
type RunCancel struct {
	RunRef
	Reason string `help:"Why."`
}

// Run asks for it.
func (c *RunCancel) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Runs.CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: c.ID, Reason: c.Reason})
		if err != nil {
			return err
		}
		return c.run(env, got.GetRun())
	})
}

// RunSteer steers a run.
type RunSteer struct {
	RunRef
	Text string `help:"What to tell it." required:""`
	How  string `help:"steer, inject or interrupt." enum:"steer,inject,interrupt" default:"steer"`
}

// Run sends it.
func (c *RunSteer) Run(ctx context.Context, env *Env) error {
	kinds := map[string]orchestratorv1.SteerKind{
		"steer": orchestratorv1.SteerKind_STEER_KIND_STEER, "inject": orchestratorv1.SteerKind_STEER_KIND_INJECT, "interrupt": orchestratorv1.SteerKind_STEER_KIND_INTERRUPT,
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Runs.SteerRun(ctx, &orchestratorv1.SteerRunRequest{RunId: c.ID, Kind: kinds[c.How], Text: c.Text})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("sent as %s", got.GetMessageId())
		return nil
	})
}

// RunAnswer answers an interaction.
type RunAnswer struct {
	Target
	ID     string   `arg:"" help:"Interaction, as shown by the run."`
	Answer []string `arg:"" help:"approve, deny, retry, skip, fail, or the text of an answer."`
	Rule   string   `help:"Rule to remember for this session, with approve or deny, for example 'allow execute(git *)'."`
}

// Run sends the answer.
func (c *RunAnswer) Run(ctx context.Context, env *Env) error {
	answer := &orchestratorv1.InteractionAnswer{InteractionId: c.ID, Decision: "answer", Answers: c.Answer, RememberRule: c.Rule}
	switch word := c.Answer[0]; word {
	case "approve", "deny", "retry", "skip", "fail":
		answer.Decision, answer.Answers, answer.Reason = word, nil, strings.Join(c.Answer[1:], " ")
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{answer}})
		if err != nil {
			return err
		}
		return c.run(env, got.GetRun())
	})
}

// pages calls fn with page tokens until there is no more.
func pages(fn func(token string) (next string, err error)) error {
	for token := ""; ; {
		next, err := fn(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}
