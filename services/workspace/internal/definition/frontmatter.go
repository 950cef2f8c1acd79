package definition

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const maxYAMLDepth = 32

// frontMatter splits a Markdown file into its front matter and the text after it. The front matter stands between a first line "---" and the next line "---".
//
// The YAML is read strictly: one mapping, no key twice. People write `description: Prices: terms` though, which YAML takes for a mapping in a mapping; where the
// front matter does not parse, such lines are read as plain text, and soft says so.
func frontMatter(text string) (fields map[string]any, body string, soft *fault, err *fault) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	rest, found := strings.CutPrefix(text, "---\n")
	if !found {
		return nil, "", nil, &fault{reason: ReasonFrontMatter, message: `the file does not begin with a line "---"`, line: 1, column: 1}
	}
	head, body, found := cutLine(rest, "---")
	if !found {
		return nil, "", nil, &fault{reason: ReasonFrontMatter, message: `the front matter has no end: a second line "---"`, line: 1, column: 1}
	}
	fields, err = mapping([]byte(head), ReasonFrontMatter, 1)
	if err == nil {
		return fields, body, nil, nil
	}
	if quoted := quotePlain(head); quoted != head {
		if again, still := mapping([]byte(quoted), ReasonFrontMatter, 1); still == nil {
			soft = err
			soft.message = "read as plain text: " + soft.message
			return again, body, soft, nil
		}
	}
	return nil, "", nil, err
}

// cutLine splits text around the first line that is mark, blanks at its end aside.
func cutLine(text, mark string) (before, after string, found bool) {
	for pos := 0; pos <= len(text); {
		line, _, more := strings.Cut(text[pos:], "\n")
		if strings.TrimRight(line, " \t") == mark {
			return text[:pos], text[min(pos+len(line)+1, len(text)):], true
		}
		if !more {
			break
		}
		pos += len(line) + 1
	}
	return "", "", false
}

var plainLine = regexp.MustCompile(`(?m)^([A-Za-z_][\w.-]*):[ \t]+([^\s"'\[{|>&*!%@` + "`" + `#-].*)$`)

// quotePlain puts the values of top-level lines into quotes where they hold what YAML would take for something else.
func quotePlain(head string) string {
	return plainLine.ReplaceAllStringFunc(head, func(line string) string {
		m := plainLine.FindStringSubmatch(line)
		value := strings.TrimRight(m[2], " \t")
		if !strings.Contains(value, ": ") && !strings.HasSuffix(value, ":") {
			return line
		}
		return m[1] + ": '" + strings.ReplaceAll(value, "'", "''") + "'"
	})
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// mapping reads one YAML mapping, strictly. skipped is how many lines of the file precede it.
func mapping(data []byte, reason string, skipped int) (map[string]any, *fault) {
	wrong := func(line int, format string, args ...any) *fault {
		f := &fault{reason: reason, message: fmt.Sprintf(format, args...)}
		if line > 0 {
			f.line, f.column = line+skipped, 1
		}
		return f
	}
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		text, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1])
			text = strings.Replace(text, m[0], "", 1)
		}
		return nil, wrong(line, "not YAML: %s", text)
	}
	if node.Kind == 0 {
		return map[string]any{}, nil
	}
	root := node.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, wrong(root.Line, "not a mapping of keys to values")
	}
	value, bad := convert(root, 0)
	if bad != nil {
		f := wrong(bad.line, "%s", bad.message)
		f.column = bad.column
		return nil, f
	}
	return value.(map[string]any), nil
}

// convert gives a node as JSON has it. Aliases are refused: they are of no use here, and a few of them make a flood.
func convert(n *yaml.Node, depth int) (any, *fault) {
	wrong := func(n *yaml.Node, text string) *fault { return &fault{message: text, line: n.Line, column: n.Column} }
	if depth > maxYAMLDepth {
		return nil, wrong(n, "nested too deeply")
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				return nil, wrong(key, "a key must be plain text")
			}
			if _, twice := out[key.Value]; twice {
				return nil, wrong(key, fmt.Sprintf("the key %q stands there twice", key.Value))
			}
			value, bad := convert(n.Content[i+1], depth+1)
			if bad != nil {
				return nil, bad
			}
			out[key.Value] = value
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			value, bad := convert(item, depth+1)
			if bad != nil {
				return nil, bad
			}
			out[i] = value
		}
		return out, nil
	case yaml.AliasNode:
		return nil, wrong(n, "aliases are not allowed")
	}
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b, nil
		}
	case "!!int", "!!float":
		var f float64
		if n.Decode(&f) == nil && f == f && f-f == 0 { // neither NaN nor infinite: JSON has neither
			return f, nil
		}
	}
	return strings.ToValidUTF8(n.Value, "\uFFFD"), nil
}
