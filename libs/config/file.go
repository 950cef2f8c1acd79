package config

import (
	"fmt"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// file is a parsed settings file: a node for each setting that it states.
type file struct {
	name   string
	values map[string]*yaml.Node
}

// parseFile reads a YAML document. Keys that are no settings, and settings stated twice, are errors with the line.
func parseFile(name string, data []byte, flags []*kong.Flag) (*file, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &file{name: name, values: make(map[string]*yaml.Node)}
	if len(document.Content) == 0 {
		return f, nil
	}
	known := make(map[string]*kong.Flag, len(flags))
	for _, flag := range flags {
		known[flag.Name] = flag
	}
	return f, f.collect(document.Content[0], "", known)
}

// collect takes the settings of one level; prefix ends in "-" unless it is empty.
func (f *file) collect(node *yaml.Node, prefix string, known map[string]*kong.Flag) error {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return f.errorAt(node, "there must be settings here, in the form name: value")
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		name := prefix + key.Value
		flag, isSetting := known[name]
		switch {
		case isSetting && (value.Kind != yaml.MappingNode || flag.IsMap()):
			if f.values[name] != nil {
				return f.errorAt(key, "setting %q is stated twice", name)
			}
			f.values[name] = value
		case value.Kind == yaml.MappingNode && isSection(name, known):
			if err := f.collect(value, name+"-", known); err != nil {
				return err
			}
		default:
			return f.unknown(key, name, known)
		}
	}
	return nil
}

// isSection says whether settings begin with this name.
func isSection(name string, known map[string]*kong.Flag) bool {
	for setting := range known {
		if len(setting) > len(name) && setting[:len(name)+1] == name+"-" {
			return true
		}
	}
	return false
}

// unknown is the error of a key that is no setting.
func (f *file) unknown(key *yaml.Node, name string, known map[string]*kong.Flag) error {
	if near := nearest(name, known); near != "" {
		return f.errorAt(key, "unknown setting %q, did you mean %q?", name, near)
	}
	return f.errorAt(key, "unknown setting %q", name)
}

func (f *file) errorAt(node *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.name, node.Line, fmt.Sprintf(format, args...))
}

// value returns what the file says about a flag, in the form that kong decodes: text for scalars and for lists and maps
// of scalars.
func (f *file) value(flag *kong.Flag) (any, bool, error) {
	node := f.values[flag.Name]
	if node == nil || node.Tag == "!!null" {
		return nil, false, nil
	}
	switch {
	case node.Kind == yaml.ScalarNode:
		return node.Value, true, nil
	case node.Kind == yaml.SequenceNode && flag.IsSlice() && scalars(node):
		items := make([]string, len(node.Content))
		for i, item := range node.Content {
			items[i] = item.Value
		}
		if len(items) == 0 {
			return []any{}, true, nil
		}
		return kong.JoinEscaped(items, flag.Tag.Sep), true, nil
	case node.Kind == yaml.SequenceNode && flag.IsSlice():
		var items []any
		err := node.Decode(&items)
		return items, err == nil, err
	case node.Kind == yaml.MappingNode && flag.IsMap():
		var items map[string]any
		err := node.Decode(&items)
		return items, err == nil, err
	}
	return nil, false, f.errorAt(node, "setting %q has the wrong form", flag.Name)
}

func scalars(node *yaml.Node) bool {
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			return false
		}
	}
	return true
}

// nearest returns the setting that a mistyped name most likely meant, or "" when none is near.
func nearest(name string, known map[string]*kong.Flag) string {
	best, bestDistance := "", len(name)/3+2
	for setting := range known {
		d := distance(name, setting)
		if d < bestDistance || (d == bestDistance && best != "" && setting < best) {
			best, bestDistance = setting, d
		}
	}
	return best
}

// distance is the number of single-byte edits between two names (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
