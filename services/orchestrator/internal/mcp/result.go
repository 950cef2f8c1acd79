package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

const (
	// maxMedia bounds one image or file, maxMedias how many of them are kept.
	maxMedia  = 64 << 10
	maxMedias = 16
	// maxData bounds structured content that is kept as such.
	maxData = 64 << 10
)

// convert makes a result of a server's answer. Nothing in it is an instruction to us.
func convert(in *mcp.CallToolResult) tool.Result {
	out := tool.OK("")
	if in.IsError {
		out = tool.Failed("MCP_TOOL_ERROR", "")
	}
	var parts []string
	for _, c := range in.Content {
		if text := take(&out, c); text != "" {
			parts = append(parts, text)
		}
	}
	if raw, err := json.Marshal(in.StructuredContent); err == nil && in.StructuredContent != nil {
		if object, ok := in.StructuredContent.(map[string]any); ok && len(raw) <= maxData {
			out.Data = object
		}
		if len(parts) == 0 {
			parts = append(parts, string(raw))
		}
	}
	out.Text = bounded(strings.Join(parts, "\n"))
	if out.Text == "" && in.IsError {
		out.Text = "The tool failed and did not say why."
	}
	return out
}

// take gives the text of a part of an answer, and adds what is no text to the result's media.
func take(out *tool.Result, c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return attach(out, "image", c.MIMEType, "", c.Data)
	case *mcp.AudioContent:
		return attach(out, "audio", c.MIMEType, "", c.Data)
	case *mcp.ResourceLink:
		return fmt.Sprintf("[%s: %s]", c.Name, c.URI)
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return ""
		}
		if c.Resource.Text != "" {
			return c.Resource.Text
		}
		return attach(out, "file", c.Resource.MIMEType, c.Resource.URI, c.Resource.Blob)
	}
	return "[content of a kind that this version does not know]"
}

// attach keeps bytes beside the text, and says in the text that they are there, or why not.
func attach(out *tool.Result, kind, mime, name string, data []byte) string {
	mime, name = clip(mime, 100), clip(name, 200)
	if len(data) > maxMedia || len(out.Media) >= maxMedias {
		return fmt.Sprintf("[%s left out: %s, %d bytes]", kind, mime, len(data))
	}
	out.Media = append(out.Media, &threadv1.Media{MimeType: mime, Name: name, Data: data})
	return fmt.Sprintf("[%s: %s, %d bytes]", kind, mime, len(data))
}

// bounded cuts a text that no result may have.
func bounded(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= tool.MaxResultBytes {
		return text
	}
	return strings.ToValidUTF8(text[:tool.MaxResultBytes], "") + fmt.Sprintf("\n[cut: %d bytes more]", len(text)-tool.MaxResultBytes)
}
