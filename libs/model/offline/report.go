package offline

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const maxQuote = 1500 // characters of one result that the report repeats

// compose writes the answer of a turn.
func (x *execution) compose() string {
	var direct, report []string
	failed := 0
	for _, n := range x.notes {
		if n.answer {
			direct = append(direct, n.text)
			continue
		}
		if n.failed {
			failed++
		}
		report = append(report, "- "+n.text+quote(n.quote))
	}
	var b strings.Builder
	if len(direct) > 0 {
		b.WriteString(strings.Join(direct, "\n") + "\n\n")
	}
	switch {
	case len(report) > 0:
		b.WriteString("No language model is configured; fixed rules carried out your words:\n" + strings.Join(report, "\n") + "\n")
		if x.report || failed > 0 {
			fmt.Fprintf(&b, "\nIn short: %s", count(len(report)-failed, "step")+" done")
			if failed > 0 {
				fmt.Fprintf(&b, ", %d not", failed)
			}
			b.WriteString(".\n")
		}
	case len(direct) > 0:
		b.WriteString("(No language model is configured; fixed rules found this answer.)\n")
	default:
		b.WriteString(x.help())
	}
	if failed > 0 && failed == len(report) && len(direct) == 0 {
		b.WriteString("\n" + x.help())
	}
	return strings.TrimSpace(b.String())
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// help says what works without a model, as far as the offered tools go.
func (x *execution) help() string {
	var can []string
	for _, c := range []struct {
		tools []string
		say   string
	}{
		{readTool, "read FILE"}, {writeTool, "write 'TEXT' to FILE"}, {editTool, "replace 'A' with 'B' in FILE"}, {listTool, "list the files in DIR"},
		{grepTool, "search the files for 'WORD'"}, {runTool, "run `COMMAND`"}, {saveTool, "remember that …"}, {searchTool, "what do you know about …?"},
		{spawnTool, "ask the NAME subagent to …"},
	} {
		if x.offers(c.tools) {
			can = append(can, c.say)
		}
	}
	if len(can) == 0 {
		return "No language model is configured, and no tools are offered here, so I can do nothing with this. Configure a model to get an answer."
	}
	return "No language model is configured. Fixed rules understand plain instructions, for example: " + strings.Join(can, "; ") + ". Configure a model for anything else."
}

// quote indents what a tool gave under the line that speaks of it.
func quote(s string) string {
	s = strings.TrimRight(s, "\n ")
	if s == "" {
		return ""
	}
	if n := utf8.RuneCountInString(s); n > maxQuote {
		s = string([]rune(s)[:maxQuote]) + fmt.Sprintf("… (%d more characters)", n-maxQuote)
	}
	return "\n  > " + strings.ReplaceAll(s, "\n", "\n  > ")
}
