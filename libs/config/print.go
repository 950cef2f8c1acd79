package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Source says where the value of a setting comes from.
type Source string

// The sources, weakest first.
const (
	SourceDefault Source = "default"
	SourceFile    Source = "file"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
)

// Print writes the settings in effect, one on a line, with the source of each as a comment. Secrets are hidden. The
// output can be used as a settings file.
func (p *Parser) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, flag := range p.flags() {
		source, ok := p.sources[flag.Name]
		if !ok {
			source = SourceDefault
		}
		text := yamlText(flag)
		if isSecret(flag) {
			// A comment, so that the mask is never read back as the secret.
			fmt.Fprintf(table, "# %s: %s\t# %s\n", flag.Name, text, source)
			continue
		}
		fmt.Fprintf(table, "%s: %s\t# %s\n", flag.Name, text, source)
	}
	return table.Flush()
}

// Markdown writes the table of settings for the documentation: name, variable, default and meaning.
func (p *Parser) Markdown(w io.Writer) error {
	var out strings.Builder
	out.WriteString("| setting | environment | default | meaning |\n|---|---|---|---|\n")
	for _, flag := range p.flags() {
		if flag.Hidden {
			continue
		}
		fallback := ""
		if flag.HasDefault && flag.Default != "" && !isSecret(flag) {
			fallback = "`" + flag.Default + "`"
		}
		env := ""
		if names := p.envs[flag.Name]; len(names) > 0 {
			env = "`" + strings.Join(names, "`, `") + "`"
		}
		help := flag.Help
		if isSecret(flag) {
			help += " Secret: never printed."
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", flag.Name, env, fallback, strings.ReplaceAll(help, "|", `\|`))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// isSecret says whether a value may be shown.
func isSecret(flag *kong.Flag) bool {
	return flag.Target.Type() == reflect.TypeFor[Secret]() || flag.Tag.Has("secret")
}

// yamlText returns the value in effect as YAML on one line.
func yamlText(flag *kong.Flag) string {
	value := flag.Target.Interface()
	if isSecret(flag) {
		if flag.Target.IsZero() {
			return `""`
		}
		return hiddenText
	}
	switch v := value.(type) {
	case fmt.Stringer:
		return fmt.Sprintf("%q", v.String())
	case nil:
		return `""`
	}
	switch flag.Target.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", flag.Target.String())
	case reflect.Slice:
		items := make([]string, flag.Target.Len())
		for i := range items {
			items[i] = fmt.Sprintf("%q", fmt.Sprint(flag.Target.Index(i).Interface()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		items := make([]string, 0, flag.Target.Len())
		for _, key := range flag.Target.MapKeys() {
			items = append(items, fmt.Sprintf("%q: %q", fmt.Sprint(key), fmt.Sprint(flag.Target.MapIndex(key).Interface())))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(value)
}
