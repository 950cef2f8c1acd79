package cli

import (
	"context"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// ThreadRewind moves a conversation back.
type ThreadRewind struct {
	Target
	To int64 `required:"" help:"Last event that counts, as thread events shows it: one after which no run was open. 0: none does."`
}

// Run moves it.
func (c *ThreadRewind) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.RewindThread(ctx, &orchestratorv1.RewindThreadRequest{ToSeq: c.To})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("the conversation is that of event %d again; files, facts and tasks are as they were left. %d events", c.To, got.GetThread().GetSeq())
		return nil
	})
}

// ThreadReplay makes requests again.
type ThreadReplay struct {
	Target
	RunID string `name:"run" help:"Only this run. Empty: all of the session."`
}

// Run shows what came of it.
func (c *ThreadReplay) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.ReplayThread(ctx, &orchestratorv1.ReplayThreadRequest{RunId: c.RunID})
		if err != nil {
			return err
		}
		if c.JSON {
			if err := env.JSON(got); err != nil {
				return err
			}
		} else {
			showDifferences(env, got.GetDifferences())
			env.Line("%d of %d requests are equal, %d differences", got.GetEqual(), got.GetRequests(), len(got.GetDifferences()))
		}
		if len(got.GetDifferences()) > 0 {
			return exitCode(ExitFailed)
		}
		return nil
	})
}

// ThreadCompare compares two runs.
type ThreadCompare struct {
	Target
	One          string `arg:"" help:"A run of the session."`
	Other        string `arg:"" help:"The run to compare it with."`
	OtherSession string `help:"Session of the other run. Empty: the same."`
}

// Run shows the differences.
func (c *ThreadCompare) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Admin.CompareRuns(ctx, &orchestratorv1.CompareRunsRequest{RunId: c.One, OtherRunId: c.Other, OtherSession: c.OtherSession})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		showDifferences(env, got.GetDifferences())
		for _, r := range []*orchestratorv1.Run{got.GetRun(), got.GetOther()} {
			env.Line("%s  %d steps  %d tokens in, %d out  %s", r.GetId(), r.GetSteps(), r.GetUsage().GetInputTokens(), r.GetUsage().GetOutputTokens(), oneLine(r.GetText(), maxShown))
		}
		return nil
	})
}

func showDifferences(env *Env, list []*orchestratorv1.ReplayDifference) {
	for _, d := range list {
		env.Line("event %d, %s:\n%s", d.GetSeq(), d.GetWhat(), d.GetDiff())
	}
}
