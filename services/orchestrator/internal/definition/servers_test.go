package definition

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
)

func TestParseServers(t *testing.T) {
	for name, c := range map[string]struct {
		server  string
		in      any
		want    []Server
		problem string
	}{
		"stdio": {"git", map[string]any{"command": "git-mcp", "args": []any{"-r", "x"}, "env": map[string]any{"A": "b"}}, []Server{{Command: "git-mcp", Args: []string{"-r", "x"}, Env: map[string]string{"A": "b"}}}, ""},
		"http": {"web", map[string]any{
			"transport": "streamable-http", "url": "https://x/mcp", "headers": map[string]any{"A": "${T}"}, "queryParams": map[string]any{"q": "1"}, "timeout": "PT30S",
			"initializationTimeout": 2.5, "enableTools": []any{"a"}, "disableTools": "b, c", "trust": true,
		}, []Server{{
			URL: "https://x/mcp", Headers: map[string]string{"A": "${T}"}, Query: map[string]string{"q": "1"}, Timeout: 30 * time.Second, StartTimeout: 2500 * time.Millisecond,
			Enable: []string{"a"}, Disable: []string{"b", "c"}, Trust: true,
		}}, ""},
		"switched off":         {"web", map[string]any{"url": "https://x", "disabled": true}, nil, ""},
		"no object":            {"web", "https://x", nil, "not an object"},
		"neither":              {"web", map[string]any{}, nil, "either a command or a url"},
		"both":                 {"web", map[string]any{"url": "https://x", "command": "y"}, nil, "either a command or a url"},
		"an address of a file": {"web", map[string]any{"url": "file:///x"}, nil, "none of http or https"},
		"sse":                  {"web", map[string]any{"url": "https://x", "transport": "sse"}, nil, "sse is not supported"},
		"the wrong transport":  {"git", map[string]any{"command": "x", "type": "http"}, nil, "served over stdio"},
		"a misspelt filter":    {"web", map[string]any{"url": "https://x", "enabledTools": []any{"a"}}, nil, `no key is called "enabledTools"`},
		"a filter of numbers":  {"web", map[string]any{"url": "https://x", "enableTools": []any{5}}, nil, "enableTools is not a list"},
		"a header of numbers":  {"web", map[string]any{"url": "https://x", "headers": map[string]any{"a": 5}}, nil, "headers.a is not a text"},
		"headers of a command": {"git", map[string]any{"command": "x", "headers": map[string]any{"a": "b"}}, nil, "belong to a command"},
		"args in one text":     {"git", map[string]any{"command": "x", "args": "-a -b"}, nil, "args is not a list"},
		"a time without unit":  {"web", map[string]any{"url": "https://x", "timeout": "soon"}, nil, "timeout is not a time"},
		"an endless time":      {"web", map[string]any{"url": "https://x", "timeout": "1h"}, nil, "at most 10m"},
		"a name with a gap":    {"a__b", map[string]any{"url": "https://x"}, nil, "a name has"},
		"a name with an end":   {"a_", map[string]any{"url": "https://x"}, nil, "a name has"},
		"a name with a blank":  {"a b", map[string]any{"url": "https://x"}, nil, "a name has"},
		"a long name":          {strings.Repeat("a", 33), map[string]any{"url": "https://x"}, nil, "a name has"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.want {
				c.want[i].Name = c.server
			}
			got, problems := ParseServers(fields(t, map[string]any{c.server: c.in}))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if all := strings.Join(problems, "; "); (c.problem == "") != (all == "") || !strings.Contains(all, c.problem) {
				t.Errorf("problems %q, want %q", all, c.problem)
			}
		})
	}
}

// TestServersComeFromTheTemplate and not from what an agent, or its user, wrote. A bad one takes only itself away.
func TestServersComeFromTheTemplate(t *testing.T) {
	servers := map[string]any{"mcpServers": map[string]any{"good": map[string]any{"url": "https://x"}, "bad": map[string]any{"url": 5}}}
	for layer, want := range map[fsv1.Layer]int{fsv1.Layer_LAYER_TEMPLATE: 1, fsv1.Layer_LAYER_USER: 0, fsv1.Layer_LAYER_BUCKET: 0} {
		source := &workspacev1.Source{Path: "tools.json", Layer: layer}
		d, err := fromProto(DefaultAgent, &workspacev1.Definition{
			Tools: []*workspacev1.ToolsLayer{{Source: source, Config: fields(t, servers)}}, AgentConfigSource: source,
			AgentConfig: fields(t, map[string]any{"mcp_servers": map[string]any{"more": map[string]any{"command": "y"}}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Tools.Servers) != 2*want || len(d.Fatal()) != 0 || len(d.Problems) == 0 {
			t.Errorf("from %v come %v, problems %q", layer, d.Tools.Servers, problems(d))
		}
	}
}
