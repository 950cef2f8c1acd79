// Package diff compares two texts by lines.
package diff

import (
	"fmt"
	"strings"
)

const (
	context = 3
	// maxCells bounds the table of the comparison; larger changes are shown as one replacement.
	maxCells = 4 << 20
)

// edit is one line of a comparison: ' ' kept, '-' gone, '+' new.
type edit struct {
	op   byte
	line string
}

// Unified gives a unified diff with three lines of context, cut at a line border after at most limit bytes; empty for equal texts.
func Unified(name, before, after string, limit int) string {
	if before == after {
		return ""
	}
	edits := compare(split(before), split(after))
	var b strings.Builder
	fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
	oldLine, newLine := 1, 1
	for i := 0; i < len(edits); {
		if edits[i].op == ' ' {
			i, oldLine, newLine = i+1, oldLine+1, newLine+1
			continue
		}
		from := max(0, i-context)
		to := hunkEnd(edits, i)
		oldStart, newStart := oldLine-(i-from), newLine-(i-from)
		var body strings.Builder
		var oldCount, newCount int
		for _, e := range edits[from:to] {
			body.WriteByte(e.op)
			body.WriteString(e.line + "\n")
			if e.op != '+' {
				oldCount++
			}
			if e.op != '-' {
				newCount++
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s", start(oldStart, oldCount), oldCount, start(newStart, newCount), newCount, body.String())
		oldLine, newLine, i = oldStart+oldCount, newStart+newCount, to
	}
	return cut(b.String(), limit)
}

// start is the line at which a hunk begins; by convention the line before for an empty side.
func start(line, count int) int {
	if count == 0 {
		return line - 1
	}
	return line
}

// hunkEnd finds the end of the hunk that a change at i begins: changes less than two contexts apart belong together.
func hunkEnd(edits []edit, i int) int {
	last := i
	for j := i; j < len(edits) && j <= last+2*context; j++ {
		if edits[j].op != ' ' {
			last = j
		}
	}
	return min(last+context+1, len(edits))
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:strings.LastIndexByte(s[:limit], '\n')+1]
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// compare finds the longest common sequence of lines between the common ends.
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out []edit
	for _, line := range a[:head] {
		out = append(out, edit{' ', line})
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, line := range a[len(a)-tail:] {
		out = append(out, edit{' ', line})
	}
	return out
}

func middle(a, b []string) []edit {
	var out []edit
	if len(a)*len(b) > maxCells {
		for _, line := range a {
			out = append(out, edit{'-', line})
		}
		for _, line := range b {
			out = append(out, edit{'+', line})
		}
		return out
	}
	// common[i][j] is the length of the longest common sequence of a[i:] and b[j:].
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, edit{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out = append(out, edit{'-', a[i]})
			i++
		default:
			out = append(out, edit{'+', b[j]})
			j++
		}
	}
	return out
}
