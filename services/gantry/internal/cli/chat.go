package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// Chat talks to an agent, line by line.
type Chat struct {
	Target
	Model string `help:"Model, for example ollama:qwen3 or offline."`
}

// Run reads lines until the input ends. A line that ends with a backslash goes on.
func (c *Chat) Run(ctx context.Context, env *Env) error {
	if c.Session == "" {
		c.Session = "chat-" + strings.ToLower(rand.Text()[:12])
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		if !c.JSON {
			env.Line("Session %s with agent %s. An empty line or the end of input leaves.", c.Session, c.Agent)
		}
		lines := env.Lines()
		var last error // of the newest exchange: it decides how the talk ended
		for {
			text, more := c.read(env, lines.Scan, lines.Text)
			if strings.TrimSpace(text) == "" || !more {
				return errors.Join(lines.Err(), last)
			}
			in := &orchestratorv1.RunInput{Text: text}
			if c.Model != "" {
				in.Spec = &orchestratorv1.AgentSpec{Model: c.Model}
			}
			stream, err := clients.Runs.StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: in})
			if err == nil {
				err = show(env, c.JSON, received(stream))
			}
			if ctx.Err() != nil {
				return err
			}
			last = nil
			var failed exitCode
			if err != nil { // the talk goes on
				last = exitCode(ExitFailed)
				if !errors.As(err, &failed) { // a failed run was shown by its stream
					fmt.Fprintln(env.Err, "gantry:", Explain(err))
				}
			}
		}
	})
}

func (c *Chat) read(env *Env, scan func() bool, text func() string) (string, bool) {
	var parts []string
	for {
		if !c.JSON {
			fmt.Fprint(env.Out, "> ")
		}
		if !scan() {
			return strings.Join(parts, "\n"), len(parts) > 0
		}
		line, goesOn := strings.CutSuffix(text(), "\\")
		parts = append(parts, line)
		if !goesOn {
			return strings.Join(parts, "\n"), true
		}
	}
}
