package cli

import (
	"bytes"
	"fmt"
	"strings"
)

// unified is the difference of two texts as one hunk of a unified diff: what they share at the beginning and at the end is left out, but for three lines.
func unified(name string, old, text []byte) string {
	a, b := bytes.SplitAfter(old, []byte("\n")), bytes.SplitAfter(text, []byte("\n"))
	a, b = withoutEmpty(a), withoutEmpty(b)
	start := 0
	for start < min(len(a), len(b)) && bytes.Equal(a[start], b[start]) {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && bytes.Equal(a[len(a)-1-end], b[len(b)-1-end]) {
		end++
	}
	before, after := max(0, start-3), min(3, end)
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n", name, name, before+1, len(a)-end+after-before, before+1, len(b)-end+after-before)
	write := func(sign byte, lines [][]byte) {
		for _, line := range lines {
			out.WriteByte(sign)
			out.Write(line)
			if !bytes.HasSuffix(line, []byte("\n")) {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(' ', a[before:start])
	write('-', a[start:len(a)-end])
	write('+', b[start:len(b)-end])
	write(' ', a[len(a)-end:len(a)-end+after])
	return out.String()
}

// withoutEmpty drops the empty piece behind the last line end.
func withoutEmpty(lines [][]byte) [][]byte {
	if len(lines[len(lines)-1]) == 0 {
		return lines[:len(lines)-1]
	}
	return lines
}
