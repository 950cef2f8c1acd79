package fsops

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// maxDifferences bounds the search for the fewest changed lines. Between what they begin and end with alike, two texts that differ in more lines are one change.
const maxDifferences = 1000

// Unified compares two versions of a file as a unified diff with a number of lines of context (0: 3), cut at a line border after at most limit bytes. The diff of equal
// versions is empty; of binary ones it only says that they differ.
func Unified(path string, before, after []byte, context, limit int) (text string, cut bool) {
	if bytes.Equal(before, after) {
		return "", false
	}
	if isBinary(before) || isBinary(after) {
		name, _ := Text(path)
		return fmt.Sprintf("Binary files a/%s and b/%s differ\n", name, name), false
	}
	if context <= 0 {
		context = diffContext
	}
	return compare(before, after).unified(path, context, limit)
}

func isBinary(content []byte) bool { return bytes.IndexByte(content, 0) >= 0 }

// comparison is two texts in lines, and where they differ.
type comparison struct {
	before, after [][]byte
	changed       []changed
}

// changed is lines of one text that take the place of lines of another.
type changed struct{ a, aEnd, b, bEnd int }

// compare finds the lines that make one text of another.
func compare(before, after []byte) comparison {
	c := comparison{before: linesOf(before), after: linesOf(after)}
	a, b := lineIDs(c.before, c.after)
	// What both begin and end with takes no search.
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for _, d := range differences(a[head:len(a)-tail], b[head:len(b)-tail]) {
		c.changed = append(c.changed, changed{head + d.a, head + d.aEnd, head + d.b, head + d.bEnd})
	}
	return c
}

// linesOf cuts a text into lines, each with its line feed.
func linesOf(text []byte) [][]byte {
	var out [][]byte
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		out, text = append(out, text[:end]), text[end:]
	}
	return out
}

// unified renders the comparison, joining changes whose context meets.
func (c comparison) unified(path string, context, limit int) (text string, cut bool) {
	var out strings.Builder
	name, _ := Text(path)
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	for i := 0; i < len(c.changed) && out.Len() <= limit; {
		j := i + 1
		for j < len(c.changed) && c.changed[j].a-c.changed[j-1].aEnd <= 2*context {
			j++
		}
		first, last := c.changed[i], c.changed[j-1]
		from, to := max(first.a-context, 0), min(last.aEnd+context, len(c.before))
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", hunkRange(from, to), hunkRange(first.b-(first.a-from), last.bEnd+(to-last.aEnd)))
		at := from
		for _, d := range c.changed[i:j] {
			emit(&out, ' ', c.before[at:d.a])
			emit(&out, '-', c.before[d.a:d.aEnd])
			emit(&out, '+', c.after[d.b:d.bEnd])
			at = d.aEnd
		}
		emit(&out, ' ', c.before[at:to])
		i = j
	}
	text, _ = Text(out.String())
	if len(text) <= limit {
		return text, false
	}
	return text[:strings.LastIndexByte(text[:limit], '\n')+1], true
}

// hunkRange is the lines from (included, from 0) to to (excluded) as a hunk header names them.
func hunkRange(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from) // after that line
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func emit(out *strings.Builder, sign byte, lines [][]byte) {
	for _, line := range lines {
		out.WriteByte(sign)
		out.Write(line)
		if line[len(line)-1] != '\n' {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lineIDs gives each line a number, the same for equal lines of both texts.
func lineIDs(before, after [][]byte) (a, b []int) {
	ids := map[string]int{}
	number := func(lines [][]byte) []int {
		out := make([]int, len(lines))
		for i, line := range lines {
			id, known := ids[string(line)]
			if !known {
				id = len(ids)
				ids[string(line)] = id
			}
			out[i] = id
		}
		return out
	}
	return number(before), number(after)
}

// differences finds the fewest changed lines, as Myers does: round d finds how far d changes lead on each diagonal. What a round knew is kept, to walk back from the end.
func differences(a, b []int) []changed {
	if len(a) == 0 && len(b) == 0 {
		return nil
	}
	var rounds [][]int
	most := min(len(a)+len(b), maxDifferences)
	at := make([]int, 2*most+3) // by diagonal, shifted by most+1
	for d := 0; d <= most; d++ {
		rounds = append(rounds, slices.Clone(at[most+1-d:most+2+d]))
		for k := -d; k <= d; k += 2 {
			x := at[most+1+k-1] + 1
			if k == -d || k != d && at[most+1+k-1] < at[most+1+k+1] {
				x = at[most+1+k+1]
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			at[most+1+k] = x
			if x >= len(a) && y >= len(b) {
				return walkBack(rounds, len(a), len(b))
			}
		}
	}
	return []changed{{0, len(a), 0, len(b)}}
}

// walkBack turns the rounds into differences, joining changes that touch.
func walkBack(rounds [][]int, x, y int) []changed {
	var out []changed
	for d := len(rounds) - 1; d > 0; d-- {
		known := func(k int) int { return rounds[d][k+d] } // as it was before this round; its diagonals reach from -d to d
		k := x - y
		from := k - 1
		if k == -d || k != d && known(k-1) < known(k+1) {
			from = k + 1
		}
		fromX := known(from)
		fromY := fromX - from
		s := changed{a: fromX, b: fromY, aEnd: fromX, bEnd: fromY}
		if from == k+1 {
			s.bEnd++
		} else {
			s.aEnd++
		}
		if n := len(out); n > 0 && out[n-1].a == s.aEnd && out[n-1].b == s.bEnd {
			out[n-1].a, out[n-1].b = s.a, s.b
		} else {
			out = append(out, s)
		}
		x, y = fromX, fromY
	}
	slices.Reverse(out)
	return out
}
