package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// EffectMeta is the name under which a call's _meta has its effect id: a server that keeps ids can tell a repeat from a new call.
const EffectMeta = "gantry/effect"

// remote is a tool of a server.
type remote struct {
	pool   *Pool
	key    key
	server definition.Server
	listed listed
}

var _ tool.Tool = (*remote)(nil)

// Spec implements [tool.Tool].
func (t *remote) Spec() tool.Spec { return t.listed.spec }

// errNoAnswer ends the wait for an answer.
var errNoAnswer = errors.New("no answer came in time")

// Run implements [tool.Tool].
func (t *remote) Run(ctx context.Context, call tool.Call) tool.Result {
	id, _ := identity.FromContext(ctx)
	params := &mcp.CallToolParams{Name: t.listed.name, Arguments: json.RawMessage("{}")}
	if len(call.Arguments) > 0 {
		params.Arguments = call.Arguments
	}
	if id.Effect != "" {
		params.Meta = mcp.Meta{EffectMeta: id.Effect}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.server.Timeout, errNoAnswer)
	defer cancel()
	result, again := t.send(ctx, params)
	if again { // the server has forgotten the session, a new one of which it has not refused yet
		result, _ = t.send(ctx, params)
	}
	return result
}

// send makes the call on the open connection. again says that it can be made once more: it was refused because its session is gone.
func (t *remote) send(ctx context.Context, params *mcp.CallToolParams) (result tool.Result, again bool) {
	e := t.pool.entry(t.key, t.server)
	s, err := t.pool.acquire(ctx, e)
	if err != nil {
		return tool.Failed("MCP_UNAVAILABLE", fmt.Sprintf("The MCP server %s can't be reached, so the call was not made: %s", t.server.Name, reasonOf(t.server, err))), false
	}
	defer t.pool.release(e)
	at := &attempt{}
	got, err := s.CallTool(context.WithValue(ctx, attemptKey{}, at), params)
	if err == nil {
		return convert(got), false
	}
	var refusal *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
		return t.unanswered(context.Cause(ctx)), false
	case errors.As(err, &refusal) && !transportCodes[refusal.Code]:
		return tool.Failed("MCP_REFUSED", fmt.Sprintf("The MCP server %s refused the call: %s", t.server.Name, clip(refusal.Message, 2000))), false
	case at.refused.Load():
		t.pool.lost(e, s)
		return tool.Failed("MCP_REFUSED", fmt.Sprintf("The MCP server %s did not take the call: %s", t.server.Name, reasonOf(t.server, err))), at.missing.Load()
	}
	t.pool.lost(e, s)
	return t.unanswered(err), false
}

// transportCodes are those of errors that our own side of the connection makes: they say nothing of the server.
var transportCodes = map[int64]bool{-32001: true, -32003: true, -32004: true, -32005: true}

// unanswered is the result of a call that was sent and has no answer.
func (t *remote) unanswered(err error) tool.Result {
	text := fmt.Sprintf("The MCP server %s has not answered: %s.", t.server.Name, reasonOf(t.server, err))
	if t.listed.spec.ReadOnly {
		return tool.Failed("MCP_NO_ANSWER", text+" The call changes nothing and can be made again.")
	}
	return tool.Unknown(text + " Whether the call took place is not known.")
}
