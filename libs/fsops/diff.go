package fsops

import (
	"bytes"
	"fmt"
	"strings"
)

// MaxEditDiffBytes is where the diff of an edit is cut.
const MaxEditDiffBytes = 16 << 10

const diffContext = 3

// Diff returns the edit as a unified diff with three lines of context, cut at a line border after at most limit bytes.
func (e Edited) Diff(path string, limit int) string {
	var out strings.Builder
	name, _ := Text(path)
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	shift := 0 // lines that earlier hunks added
	lines := lineStarts(e.original)
	for i := 0; i < len(e.regions); {
		first := lineAt(lines, e.regions[i].start)
		last := lastLine(lines, e.regions[i])
		j := i + 1
		for j < len(e.regions) && lineAt(lines, e.regions[j].start) <= last+2*diffContext {
			last = max(last, lastLine(lines, e.regions[j]))
			j++
		}
		from, to := max(first-diffContext, 0), min(last+diffContext, len(lines)-2)
		body, before, after := e.hunk(lines, i, j, from, to)
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n%s", from+1, before, from+1+shift, after, body)
		shift += after - before
		if out.Len() > limit {
			break
		}
		i = j
	}
	text, _ := Text(out.String())
	if len(text) > limit {
		text = text[:strings.LastIndexByte(text[:limit], '\n')+1]
	}
	return text
}

// hunk renders the lines from to to (both included) around the regions i to j (excluded), and counts its lines before and after.
func (e Edited) hunk(lines []int, i, j, from, to int) (body string, before, after int) {
	var out strings.Builder
	emit := func(sign byte, text []byte) int {
		n := 0
		for len(text) > 0 {
			line, rest, found := bytes.Cut(text, newline)
			out.WriteByte(sign)
			out.Write(line)
			out.WriteByte('\n')
			if !found {
				out.WriteString("\\ No newline at end of file\n")
			}
			text = rest
			n++
		}
		return n
	}
	context := func(a, b int) {
		if a < b {
			n := emit(' ', e.original[lines[a]:lines[b]])
			before, after = before+n, after+n
		}
	}
	at := from
	for i < j {
		first, last := lineAt(lines, e.regions[i].start), lastLine(lines, e.regions[i])
		k := i + 1
		for k < j && lineAt(lines, e.regions[k].start) <= last {
			last = max(last, lastLine(lines, e.regions[k]))
			k++
		}
		context(at, first)
		begin, end := lines[first], lines[last+1]
		before += emit('-', e.original[begin:end])
		var changed []byte
		pos := begin
		for _, r := range e.regions[i:k] {
			changed = append(append(changed, e.original[pos:r.start]...), r.text...)
			pos = r.end
		}
		after += emit('+', append(changed, e.original[pos:end]...))
		at, i = last+1, k
	}
	context(at, to+1)
	return out.String(), before, after
}

// lineStarts returns where each line begins, and at last the size.
func lineStarts(content []byte) []int {
	starts := []int{0}
	for pos := 0; ; {
		i := bytes.IndexByte(content[pos:], '\n')
		if i < 0 || pos+i+1 == len(content) {
			return append(starts, len(content))
		}
		pos += i + 1
		starts = append(starts, pos)
	}
}

// lineAt returns the index of the line that holds a position.
func lineAt(starts []int, pos int) int {
	low, high := 0, len(starts)-1
	for high-low > 1 {
		if mid := (low + high) / 2; starts[mid] <= pos {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// lastLine returns the index of the last line that a region changes. One whose new text lacks the line break at its end joins the next line.
func lastLine(starts []int, r region) int {
	if r.end > r.start && (len(r.text) == 0 || r.text[len(r.text)-1] != '\n') {
		return lineAt(starts, r.end)
	}
	return lineAt(starts, max(r.end-1, r.start))
}
