package mcp

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

func tools(names ...string) []*mcp.Tool {
	var out []*mcp.Tool
	for _, name := range names {
		out = append(out, &mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}})
	}
	return out
}

func TestOfferFiltersAndReports(t *testing.T) {
	many := make([]string, maxTools+5)
	for i := range many {
		many[i] = strings.Repeat("t", i%7+1) + string(rune('a'+i%26)) + strings.Repeat("z", i/26)
	}
	for name, c := range map[string]struct {
		server  definition.Server
		tools   []*mcp.Tool
		more    bool
		want    []string
		problem string
	}{
		"all":               {definition.Server{}, tools("a", "b"), false, []string{"a", "b"}, ""},
		"enabled ones":      {definition.Server{Enable: []string{"b", "c"}}, tools("a", "b"), false, []string{"b"}, ""},
		"disabled ones":     {definition.Server{Disable: []string{"b"}}, tools("a", "b"), false, []string{"a"}, ""},
		"disabled wins":     {definition.Server{Enable: []string{"a", "b"}, Disable: []string{"b"}}, tools("a", "b"), false, []string{"a"}, ""},
		"a clash":           {definition.Server{}, tools("a.b", "a/b", "c"), false, []string{"c"}, "mcp__s__a_b"},
		"twice the same":    {definition.Server{}, tools("a", "a", "c"), false, []string{"c"}, "mcp__s__a"},
		"a list cut short":  {definition.Server{}, tools("a"), true, []string{"a"}, "lists more tools"},
		"no schema":         {definition.Server{}, []*mcp.Tool{{Name: "a"}}, false, []string{"a"}, ""},
		"a schema of texts": {definition.Server{}, []*mcp.Tool{{Name: "a", InputSchema: map[string]any{"type": "string"}}}, false, nil, "not that of an object"},
		"a huge schema": {
			definition.Server{}, []*mcp.Tool{{Name: "a", InputSchema: map[string]any{"type": "object", "title": strings.Repeat("x", maxSchema)}}}, false, nil, "at most 65536",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.server.Name = "s"
			got, problems := offer(c.server, c.tools, c.more)
			var names []string
			for _, l := range got {
				names = append(names, l.name)
			}
			if !slices.Equal(names, c.want) {
				t.Errorf("offered are %v, want %v", names, c.want)
			}
			if all := strings.Join(problems, "; "); c.problem == "" && all != "" || !strings.Contains(all, c.problem) {
				t.Errorf("problems are %q, want %q", all, c.problem)
			}
		})
	}
	slices.Sort(many)
	got, problems := offer(definition.Server{Name: "s"}, tools(slices.Compact(many)...), false)
	if len(got) != maxTools || len(problems) != 1 {
		t.Errorf("%d of %d tools are offered, problems %v", len(got), len(many), problems)
	}
}

// TestSpecBelievesTrustedServersOnly: what calls itself read-only needs no approval and is called again, so a stranger must not say it.
func TestSpecBelievesTrustedServersOnly(t *testing.T) {
	reader := &mcp.Tool{Name: "look", InputSchema: map[string]any{"type": "object"}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	for _, trust := range []bool{false, true} {
		got, _ := offer(definition.Server{Name: "s", Trust: trust, Timeout: time.Minute}, []*mcp.Tool{reader, tools("act")[0]}, false)
		look, act := got[0].spec, got[1].spec
		if look.ReadOnly != trust || look.ConcurrencySafe != trust || act.ReadOnly || act.ConcurrencySafe {
			t.Errorf("trust %v: look is read-only %v, act %v", trust, look.ReadOnly, act.ReadOnly)
		}
		if look.EffectKind != tool.EffectNetwork || !look.EffectKind.Outside() || look.Timeout <= time.Minute {
			t.Errorf("the spec is %+v", look)
		}
	}
}

func TestConvert(t *testing.T) {
	text := func(s string) mcp.Content { return &mcp.TextContent{Text: s} }
	for name, c := range map[string]struct {
		in     *mcp.CallToolResult
		ok     bool
		reason string
		text   string
		media  int
		data   bool
	}{
		"texts":         {&mcp.CallToolResult{Content: []mcp.Content{text("a"), text("b")}}, true, "", "a\nb", 0, false},
		"nothing":       {&mcp.CallToolResult{}, true, "", "", 0, false},
		"an error":      {&mcp.CallToolResult{Content: []mcp.Content{text("a"), text("b")}, IsError: true}, false, "MCP_TOOL_ERROR", "a\nb", 0, false},
		"a mute error":  {&mcp.CallToolResult{IsError: true}, false, "MCP_TOOL_ERROR", "The tool failed and did not say why.", 0, false},
		"an image":      {&mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("xyz")}}}, true, "", "[image: image/png, 3 bytes]", 1, false},
		"a large image": {&mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, maxMedia+1)}}}, true, "", "[image left out: image/png, 65537 bytes]", 0, false},
		"a link":        {&mcp.CallToolResult{Content: []mcp.Content{&mcp.ResourceLink{Name: "doc", URI: "file:///d"}}}, true, "", "[doc: file:///d]", 0, false},
		"a resource":    {&mcp.CallToolResult{Content: []mcp.Content{&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "u", Text: "body"}}}}, true, "", "body", 0, false},
		"structured":    {&mcp.CallToolResult{StructuredContent: map[string]any{"n": 1.0}}, true, "", `{"n":1}`, 0, true},
		"both":          {&mcp.CallToolResult{Content: []mcp.Content{text("one")}, StructuredContent: map[string]any{"n": 1.0}}, true, "", "one", 0, true},
		"no object":     {&mcp.CallToolResult{StructuredContent: []any{1.0}}, true, "", `[1]`, 0, false},
		"no UTF-8":      {&mcp.CallToolResult{Content: []mcp.Content{text("a\xffb")}}, true, "", "a�b", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := convert(c.in)
			if got.IsOK() != c.ok || got.Reason != c.reason || got.Text != c.text || len(got.Media) != c.media || (got.Data != nil) != c.data {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := convert(&mcp.CallToolResult{Content: []mcp.Content{text(strings.Repeat("x", tool.MaxResultBytes+7))}}); !strings.HasSuffix(got.Text, "[cut: 7 bytes more]") {
		t.Errorf("a text of %d bytes is kept", len(got.Text))
	}
}
