package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	// maxTools bounds what a server may add to every request of a run.
	maxTools = 128
	// maxListed and maxPages bound what is read of a list.
	maxListed = 1000
	maxPages  = 20
	// maxSchema and maxDescription bound one tool.
	maxSchema      = 64 << 10
	maxDescription = 4 << 10
)

// listed is a tool as it is offered.
type listed struct {
	name string // as the server says it
	spec tool.Spec
}

// fetch reads the list of a server's tools as far as it is read at all.
func fetch(ctx context.Context, s *mcp.ClientSession) (tools []*mcp.Tool, more bool, err error) {
	params := &mcp.ListToolsParams{}
	for range maxPages {
		page, err := s.ListTools(ctx, params)
		if err != nil {
			return nil, false, err
		}
		tools = append(tools, page.Tools...)
		if len(tools) >= maxListed {
			return tools[:maxListed], len(tools) > maxListed || page.NextCursor != "", nil
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return tools, false, nil
		}
	}
	return tools, true, nil
}

// offer makes of a server's list what its runs have. Tools of one name are all left out: which of them a call or a rule means is not known.
func offer(s definition.Server, all []*mcp.Tool, more bool) (out []listed, problems []string) {
	count := map[string]int{}
	for _, t := range all {
		count[toolName(s.Name, t.Name)]++
	}
	var clashing []string
	over := 0
	for _, t := range all {
		name := toolName(s.Name, t.Name)
		if len(s.Enable) > 0 && !slices.Contains(s.Enable, t.Name) || slices.Contains(s.Disable, t.Name) {
			continue
		}
		if count[name] > 1 {
			clashing = append(clashing, name)
			continue
		}
		schema, problem := schemaOf(t)
		switch {
		case problem != "":
			problems = append(problems, fmt.Sprintf("%s is left out: %s", name, problem))
		case len(out) >= maxTools:
			over++
		default:
			out = append(out, listed{t.Name, specOf(s, t, name, schema)})
		}
	}
	if slices.Sort(clashing); len(clashing) > 0 {
		problems = append(problems, "several tools have the same name and are left out: "+clip(strings.Join(slices.Compact(clashing), ", "), 500))
	}
	if over > 0 || more {
		problems = append(problems, fmt.Sprintf("it lists more tools than the %d that are used; enableTools chooses", len(out)))
	}
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems], "and more")
	}
	return out, problems
}

// maxProblems bounds what is told of one server.
const maxProblems = 4

func specOf(s definition.Server, t *mcp.Tool, name string, schema json.RawMessage) tool.Spec {
	spec := tool.Spec{Name: name, Description: clip(t.Description, maxDescription), Schema: schema, EffectKind: tool.EffectNetwork, Timeout: s.Timeout + giveUp}
	if s.Trust && t.Annotations != nil && t.Annotations.ReadOnlyHint {
		spec.ReadOnly, spec.ConcurrencySafe = true, true
	}
	return spec
}

func schemaOf(t *mcp.Tool) (json.RawMessage, string) {
	if t.InputSchema == nil {
		return json.RawMessage(`{"type":"object"}`), ""
	}
	raw, err := json.Marshal(t.InputSchema)
	var head struct {
		Type any `json:"type"`
	}
	switch {
	case err != nil || json.Unmarshal(raw, &head) != nil || head.Type != "object":
		return nil, "its schema is not that of an object"
	case len(raw) > maxSchema:
		return nil, fmt.Sprintf("its schema has %d bytes, at most %d are allowed", len(raw), maxSchema)
	}
	return raw, ""
}

func clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
