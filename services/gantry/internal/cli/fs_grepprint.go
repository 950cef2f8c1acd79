package cli

import (
	"fmt"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

const (
	colourPath  = "\x1b[35m"
	colourLine  = "\x1b[32m"
	colourMatch = "\x1b[1;31m"
	colourEnd   = "\x1b[m"
)

// matchPrinter prints matches as grep does: path:line:text, lines of context with "-", "--" between stretches. Context that two matches share is printed once.
type matchPrinter struct {
	env    *Env
	colour bool

	path  string
	last  int64    // line printed last in path
	after []string // lines after the match before that are not printed yet
	any   bool     // something with context was printed
}

func (p *matchPrinter) match(m *fsv1.Match) {
	if m.GetPath() != p.path {
		p.end()
		p.path, p.last = m.GetPath(), 0
	}
	p.flush(m.GetLine())
	first := m.GetLine() - int64(len(m.GetBefore()))
	if p.any && (p.last == 0 || first > p.last+1) && len(m.GetBefore())+len(m.GetAfter()) > 0 {
		fmt.Fprintln(p.env.Out, "--")
	}
	p.any = true
	for i, text := range m.GetBefore() {
		if line := first + int64(i); line > p.last {
			p.line(line, '-', p.text(text))
		}
	}
	p.line(m.GetLine(), ':', p.matched(m))
	p.after = m.GetAfter()
}

// flush prints the lines after the match before, up to a line.
func (p *matchPrinter) flush(until int64) {
	for _, text := range p.after {
		if p.last+1 >= until {
			break
		}
		p.line(p.last+1, '-', p.text(text))
	}
	p.after = nil
}

func (p *matchPrinter) end() { p.flush(1<<63 - 1) }

func (p *matchPrinter) line(n int64, sign rune, text string) {
	path := strings.ReplaceAll(Printable(p.path), "\n", `\n`)
	if p.colour {
		fmt.Fprintf(p.env.Out, "%s%s%s%c%s%d%s%c%s\n", colourPath, path, colourEnd, sign, colourLine, n, colourEnd, sign, text)
	} else {
		fmt.Fprintf(p.env.Out, "%s%c%d%c%s\n", path, sign, n, sign, text)
	}
	p.last = n
}

func (p *matchPrinter) text(s string) string { return strings.ReplaceAll(Printable(s), "\n", " ") }

// matched is the text of a match, with the match in colour. Positions count bytes as stored; where wrong bytes were replaced or the line was cut, they may lie elsewhere.
func (p *matchPrinter) matched(m *fsv1.Match) string {
	text, more := m.GetText(), ""
	if m.GetTextTruncated() {
		more = "…"
	}
	from := m.GetColumn() - 1
	to := from + m.GetLengthBytes()
	if !p.colour || from < 0 || to <= from || to > int64(len(text)) {
		return p.text(text) + more
	}
	return p.text(text[:from]) + colourMatch + p.text(text[from:to]) + colourEnd + p.text(text[to:]) + more
}
