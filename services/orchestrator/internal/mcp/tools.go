package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Tools gives the tools of servers, in the order of the servers, and what is wrong with them. It waits for the slowest server, and for none longer than its
// start timeout.
func (p *Pool) Tools(ctx context.Context, who Caller, servers []definition.Server) (tools []tool.Tool, problems []Problem) {
	each := make([]found, len(servers))
	var work sync.WaitGroup
	for i, s := range servers {
		work.Go(func() { each[i] = p.find(ctx, who, s) })
	}
	work.Wait()
	for _, f := range each {
		tools, problems = append(tools, f.tools...), append(problems, f.problems...)
	}
	return tools, problems
}

type found struct {
	tools    []tool.Tool
	problems []Problem
}

func (p *Pool) find(ctx context.Context, who Caller, declared definition.Server) (out found) {
	tell := func(reason, text string) { out.problems = append(out.problems, Problem{declared.Name, reason, text}) }
	s, personal, missing := p.cfg.expand(who, declared)
	if len(missing) > 0 {
		tell(ReasonVariable, fmt.Sprintf("MCP server %s: these variables are not set, or not allowed there, and are empty: %s", s.Name, clip(strings.Join(missing, ", "), 500)))
	}
	s.Timeout, s.StartTimeout = or(s.Timeout, p.cfg.Call), or(s.StartTimeout, p.cfg.Start)
	e := p.entry(keyOf(who, s, personal), s)
	offered, left, err := p.list(ctx, e)
	if err != nil {
		text := fmt.Sprintf("MCP server %s can't be used: %s", s.Name, reasonOf(s, err))
		if len(offered) > 0 {
			text += ". Its tools are those that it had before."
		}
		tell(ReasonUnavailable, text)
	}
	for _, problem := range left {
		tell(ReasonLeftOut, fmt.Sprintf("MCP server %s: %s", s.Name, problem))
	}
	for _, l := range offered {
		out.tools = append(out.tools, &remote{pool: p, key: e.key, server: s, listed: l})
	}
	return out
}

// reasonOf says why a server can't be used, without what the declaration may hold of secrets.
func reasonOf(s definition.Server, err error) string {
	text := err.Error()
	for _, values := range []map[string]string{s.Headers, s.Env, s.Query} {
		for _, v := range values {
			if len(v) > 3 {
				text = strings.ReplaceAll(text, v, "…")
			}
		}
	}
	return clip(text, 500)
}

// list gives the tools of a server: those that are known, while they count, else those that it lists now. With an error come the last ones that were known.
func (p *Pool) list(ctx context.Context, e *entry) ([]listed, []string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.server.StartTimeout, fmt.Errorf("it did not answer within %s", e.server.StartTimeout))
	defer cancel()
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	p.mu.Lock()
	tools, problems, failure := e.tools, e.problems, e.failure
	now := p.cfg.Now()
	fresh, failed := !e.listed.IsZero() && now.Sub(e.listed) < listLife, failure != nil && now.Sub(e.failed) < sulk
	p.mu.Unlock()
	if fresh {
		return tools, problems, nil
	}
	if failed {
		return tools, problems, failure
	}
	more, left, err := p.ask(ctx, e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, errFull) { // of a caller that went away it says nothing
			e.failure, e.failed = err, p.cfg.Now()
		}
		return tools, problems, err
	}
	e.tools, e.problems, e.listed, e.failure = more, left, p.cfg.Now(), nil
	return more, left, nil
}

// ask connects and reads the list.
func (p *Pool) ask(ctx context.Context, e *entry) ([]listed, []string, error) {
	s, err := p.acquireInTurn(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	defer p.release(e)
	all, more, err := fetch(ctx, s.ClientSession)
	if err != nil {
		p.lost(e, s) // what can't list its tools is not to be trusted with a call
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, nil, err
	}
	tools, problems := offer(e.server, all, more)
	return tools, problems, nil
}

// giveUp is how much longer a run waits for a call than the call for its server, which then says what is known.
const giveUp = 2 * time.Second
