package cli

import (
	"context"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// Agents shows agents.
type Agents struct {
	List   AgentsList   `cmd:"" default:"1" help:"List the agents."`
	Show   AgentsShow   `cmd:"" help:"Show an agent: its settings, skills, subagents, and problems with its files."`
	Tools  AgentsTools  `cmd:"" help:"Show the tools that a call would have, and what removed the others."`
	Models AgentsModels `cmd:"" help:"Show the models that runs can use."`
}

// AgentsList lists agents.
type AgentsList struct{ Target }

// Run lists them.
func (c *AgentsList) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Agents.ListAgents(ctx, &orchestratorv1.ListAgentsRequest{PageToken: token})
			if err != nil {
				return "", err
			}
			for _, a := range got.GetAgents() {
				if c.JSON {
					if err := env.JSON(a); err != nil {
						return "", err
					}
					continue
				}
				env.Line("%-24s %-8s %s", a.GetId(), a.GetOrigin(), oneLine(a.GetDescription(), maxShown))
			}
			return got.GetNextPageToken(), nil
		})
	})
}

// AgentsShow shows an agent.
type AgentsShow struct {
	Target
	ID string `arg:"" help:"Agent."`
}

// Run shows it.
func (c *AgentsShow) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Agents.GetAgent(ctx, &orchestratorv1.GetAgentRequest{Id: c.ID})
		if err != nil {
			return err
		}
		a := got.GetAgent()
		if c.JSON {
			return env.JSON(a)
		}
		env.Line("%s (%s): %s", a.GetId(), a.GetOrigin(), a.GetDescription())
		env.Line("skills: %s\nsubagents: %s", strings.Join(a.GetSkills(), ", "), strings.Join(a.GetSubagents(), ", "))
		for _, p := range a.GetProblems() {
			env.Line("problem: %s: %s", p.GetPath(), p.GetProblem())
		}
		return nil
	})
}

// AgentsTools shows tools.
type AgentsTools struct {
	Target
	ID string `arg:"" optional:"" help:"Agent. Empty: --agent."`
}

// Run shows them.
func (c *AgentsTools) Run(ctx context.Context, env *Env) error {
	if c.ID == "" {
		c.ID = c.Agent
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Agents.ListTools(ctx, &orchestratorv1.ListToolsRequest{Id: c.ID})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		for _, t := range got.GetTools() {
			if t.GetEnabled() {
				env.Line("%-26s %s", t.GetName(), oneLine(t.GetDescription(), maxShown))
			} else {
				env.Line("%-26s removed by %s", t.GetName(), t.GetRemovedBy())
			}
		}
		for _, u := range got.GetUnknownEntries() {
			env.Line("no tool is called %q, which a list names", u)
		}
		return nil
	})
}

// AgentsModels shows models.
type AgentsModels struct{ Target }

// Run shows them.
func (c *AgentsModels) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Agents.ListModels(ctx, &orchestratorv1.ListModelsRequest{})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		for _, m := range got.GetModels() {
			mark := " "
			if m.GetIsDefault() {
				mark = "*"
			}
			env.Line("%s %-40s %8d tokens  %s", mark, m.GetName(), m.GetContextTokens(), m.GetNote())
		}
		return nil
	})
}
