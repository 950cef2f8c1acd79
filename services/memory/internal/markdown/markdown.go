// Package markdown reads memory files as a list of statements, and writes statements so that they are read back as they were.
//
// A statement is a list item with its continuation lines, a paragraph, or a fenced block. Headings stand above statements. Nested items are statements of their own.
package markdown

import (
	"regexp"
	"strings"
)

// maxParagraphBytes is the size from which a paragraph is cut at the next line, so that a search shows the part that matches.
const maxParagraphBytes = 1500

// Unit is one statement.
type Unit struct {
	// Text is the statement without its list marker, its lines joined by line feeds.
	Text string
	// Item says that it is a list item.
	Item bool
	// Line and EndLine are the lines of the file, from 1.
	Line, EndLine int
	// Offset is the byte at which the first line begins.
	Offset int
	// Headings stand above it, outermost first.
	Headings []string
}

var (
	heading = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	item    = regexp.MustCompile(`^([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(.*)$`)
	fence   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	rule    = regexp.MustCompile(`^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	// special is a line that would be read as something else than the continuation of a statement.
	special = regexp.MustCompile("^(?:[-*+>#|\\\\]|\\d{1,9}[.)]|```|~~~|<!--)")
)

// Parse reads the statements of a file.
func Parse(content string) []Unit {
	p := &parser{}
	offset := 0
	for number := 1; offset < len(content); number++ {
		line, _, _ := strings.Cut(content[offset:], "\n")
		p.line(strings.TrimSuffix(line, "\r"), number, offset)
		offset += len(line) + 1
	}
	p.flush()
	return p.units
}

// level is one heading that stands above what follows.
type level struct {
	depth int
	text  string
}

type parser struct {
	units   []Unit
	stack   []level
	cur     *Unit
	fence   string // that opened the current block
	comment bool   // inside an HTML comment
	size    int
}

func (p *parser) line(line string, number, offset int) {
	if p.fence != "" {
		p.extend(line, number)
		if strings.HasPrefix(strings.TrimSpace(line), p.fence) {
			p.fence = ""
			p.flush()
		}
		return
	}
	trimmed := strings.TrimSpace(line)
	if p.comment || strings.HasPrefix(trimmed, "<!--") {
		p.flush()
		p.comment = !strings.Contains(trimmed, "-->")
		return
	}
	switch {
	case trimmed == "" || rule.MatchString(line):
		p.flush()
	case p.heading(line):
	case p.item(line, number, offset):
	case fence.MatchString(line) && (p.cur == nil || !p.cur.Item):
		p.flush()
		p.fence = fence.FindStringSubmatch(line)[1]
		p.begin(Unit{Text: line, Line: number, Offset: offset})
	case p.cur != nil && (p.size < maxParagraphBytes || p.cur.Item):
		if p.cur.Item {
			trimmed = unescape(trimmed)
		}
		p.extend(trimmed, number)
	default:
		p.flush()
		p.begin(Unit{Text: trimmed, Line: number, Offset: offset})
	}
}

func (p *parser) heading(line string) bool {
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	p.flush()
	depth := len(m[1])
	for len(p.stack) > 0 && p.stack[len(p.stack)-1].depth >= depth {
		p.stack = p.stack[:len(p.stack)-1]
	}
	p.stack = append(p.stack, level{depth, m[2]})
	return true
}

func (p *parser) item(line string, number, offset int) bool {
	m := item.FindStringSubmatch(line)
	if m == nil {
		return false
	}
	p.flush()
	p.begin(Unit{Text: unescape(strings.TrimSpace(m[3])), Item: true, Line: number, Offset: offset})
	return true
}

func (p *parser) begin(u Unit) {
	u.EndLine = u.Line
	for _, l := range p.stack {
		if l.text != "" {
			u.Headings = append(u.Headings, l.text)
		}
	}
	p.cur, p.size = &u, len(u.Text)
}

func (p *parser) extend(text string, number int) {
	p.cur.Text += "\n" + text
	p.cur.EndLine = number
	p.size += len(text)
}

func (p *parser) flush() {
	if p.cur != nil && strings.TrimSpace(p.cur.Text) != "" {
		p.units = append(p.units, *p.cur)
	}
	p.cur = nil
}

// Normalize gives the form of a statement that survives writing and reading: lines trimmed, empty ones and control characters gone.
func Normalize(s string) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }) {
		line = strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f {
				return ' '
			}
			return r
		}, line)
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Item writes a normalized statement as a list item, with a line feed at its end. Parse gives the statement back.
func Item(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if special.MatchString(line) {
			line = "\\" + line
		}
		lines[i] = line
	}
	return "- " + strings.Join(lines, "\n  ") + "\n"
}

// unescape takes off what Item put in front of a line.
func unescape(line string) string {
	if rest, ok := strings.CutPrefix(line, "\\"); ok && special.MatchString(rest) {
		return rest
	}
	return line
}
