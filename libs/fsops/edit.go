package fsops

import (
	"bytes"
	"sort"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"golang.org/x/text/unicode/norm"
)

const (
	// MaxReplacements bounds one edit.
	MaxReplacements = 100
	// MaxReplacementBytes bounds each text of a replacement.
	MaxReplacementBytes = 1 << 20

	// maxLinesInError bounds how many line numbers an error lists.
	maxLinesInError = 20
)

// Replacement is one exact replacement.
type Replacement struct {
	// Old is the text to be replaced, compared independent of line ending (LF or CRLF) and of Unicode normal form. Never empty.
	Old string
	// New is put in its place, with the line endings of the file.
	New string
	// All replaces every occurrence; otherwise exactly one must exist.
	All bool
}

// Edited is the outcome of an edit.
type Edited struct {
	// Content is the whole new content.
	Content []byte
	// Counts are the occurrences replaced by each replacement, in the order of the request.
	Counts []int

	original []byte
	regions  []region
}

// region is one stretch of the original and what comes in its place.
type region struct {
	start, end int
	text       []byte
	edit       int
}

// Edit applies the replacements to content, all or none. Every one is matched against the original content. Nothing but the replaced stretches changes.
//
// EDIT_INVALID for an empty old text, for an old text equal to the new one, and for stretches that overlap; EDIT_NO_MATCH and EDIT_AMBIGUOUS say
// how often the old text occurs, and on which lines. Metadata "edit" is the index of the replacement.
func Edit(content []byte, edits []Replacement) (Edited, error) {
	if len(edits) == 0 || len(edits) > MaxReplacements {
		return Edited{}, fail(errdefs.ErrInvalidArgument, ReasonEditInvalid, "an edit has 1 to %d replacements, this one has %d", MaxReplacements, len(edits))
	}
	v := newView(content, true)
	ending := fileEnding(content)
	out := Edited{original: content, Counts: make([]int, len(edits))}
	for i, edit := range edits {
		if err := checkReplacement(i, edit); err != nil {
			return Edited{}, err
		}
		found := v.find(matchForm(edit.Old))
		switch {
		case len(found) == 0:
			return Edited{}, errNoMatch(i, edit, &v)
		case len(found) > 1 && !edit.All:
			return Edited{}, errAmbiguous(i, content, found)
		}
		for _, at := range found {
			text := withEnding([]byte(edit.New), endingOf(content[at.start:at.end], ending))
			out.regions = append(out.regions, region{start: at.start, end: at.end, text: text, edit: i})
		}
		out.Counts[i] = len(found)
	}
	sort.SliceStable(out.regions, func(a, b int) bool { return out.regions[a].start < out.regions[b].start })
	size := len(content)
	for i, r := range out.regions {
		if i > 0 && r.start < out.regions[i-1].end {
			return Edited{}, errOverlap(out.regions[i-1].edit, r.edit)
		}
		size += len(r.text) - (r.end - r.start)
	}
	out.Content = make([]byte, 0, size)
	pos := 0
	for _, r := range out.regions {
		out.Content = append(out.Content, content[pos:r.start]...)
		out.Content = append(out.Content, r.text...)
		pos = r.end
	}
	out.Content = append(out.Content, content[pos:]...)
	return out, nil
}

func checkReplacement(i int, edit Replacement) error {
	invalid := func(format string, args ...any) error {
		return fail(errdefs.ErrInvalidArgument, ReasonEditInvalid, "edit %d: "+format, append([]any{i}, args...)...).With("edit", strconv.Itoa(i))
	}
	switch {
	case edit.Old == "":
		return invalid("the old text is empty")
	case len(edit.Old) > MaxReplacementBytes || len(edit.New) > MaxReplacementBytes:
		return invalid("a text has over %d bytes", MaxReplacementBytes)
	case edit.Old == edit.New:
		return invalid("old and new text are equal")
	}
	return nil
}

// matchForm is text as views are: NFC, LF.
func matchForm(text string) []byte {
	return norm.NFC.Bytes([]byte(strings.ReplaceAll(text, "\r\n", "\n")))
}

// stretch is a part of the original content.
type stretch struct{ start, end int }

// find returns the occurrences of old, in order and without overlap, as stretches of the original.
func (v *view) find(old []byte) []stretch {
	var found []stretch
	for pos := 0; pos <= len(v.data)-len(old); {
		i := bytes.Index(v.data[pos:], old)
		if i < 0 {
			break
		}
		start, okStart := v.original(pos + i)
		end, okEnd := v.original(pos + i + len(old))
		if !okStart || !okEnd {
			pos += i + 1
			continue
		}
		found = append(found, stretch{start, end})
		pos += i + len(old)
	}
	return found
}

// fileEnding is the line ending that most lines of content have; "" when it has none.
func fileEnding(content []byte) string {
	all := bytes.Count(content, newline)
	if all == 0 {
		return ""
	}
	if crlf := bytes.Count(content, []byte("\r\n")); 2*crlf > all {
		return "\r\n"
	}
	return "\n"
}

// endingOf is the ending inside a replaced stretch when all its lines have the same, else the file's.
func endingOf(old []byte, file string) string {
	all, crlf := bytes.Count(old, newline), bytes.Count(old, []byte("\r\n"))
	switch {
	case all == 0:
		return file
	case crlf == 0:
		return "\n"
	case crlf == all:
		return "\r\n"
	}
	return file
}

// withEnding gives text the ending. An unknown ending leaves it alone.
func withEnding(text []byte, ending string) []byte {
	if ending == "" || bytes.IndexByte(text, '\n') < 0 {
		return text
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), newline)
	if ending == "\r\n" {
		text = bytes.ReplaceAll(text, newline, []byte("\r\n"))
	}
	return text
}

func errNoMatch(i int, edit Replacement, v *view) error {
	e := fail(errdefs.ErrFailedPrecondition, ReasonEditNoMatch, "edit %d: the old text does not occur", i)
	// Most misses are a wrong second line or wrong blanks: say where the beginning is.
	first, _, several := strings.Cut(strings.TrimSpace(edit.Old), "\n")
	first = strings.TrimSpace(first)
	if at := bytes.Index(v.data, matchForm(first)); first != "" && at >= 0 {
		line := 1 + bytes.Count(v.data[:at], newline)
		what := "without the blanks around it it does, on line %d"
		if several {
			what = "its first line does, on line %d"
		}
		e = fail(errdefs.ErrFailedPrecondition, ReasonEditNoMatch, "edit %d: the old text does not occur; "+what, i, line).
			With("near_line", strconv.Itoa(line))
	}
	return e.With("edit", strconv.Itoa(i)).With("matches", "0")
}

func errAmbiguous(i int, content []byte, found []stretch) error {
	var lines []string
	line, pos := 1, 0
	for _, at := range found[:min(len(found), maxLinesInError)] {
		line += bytes.Count(content[pos:at.start], newline)
		pos = at.start
		lines = append(lines, strconv.Itoa(line))
	}
	list := strings.Join(lines, ",")
	return fail(errdefs.ErrFailedPrecondition, ReasonEditAmbiguous,
		"edit %d: the old text occurs %d times (lines %s); add text around it, or set replace_all", i, len(found), list).
		With("edit", strconv.Itoa(i)).With("matches", strconv.Itoa(len(found))).With("lines", list)
}

func errOverlap(a, b int) error {
	return fail(errdefs.ErrInvalidArgument, ReasonEditInvalid, "edits %d and %d change the same text", min(a, b), max(a, b)).
		With("edit", strconv.Itoa(max(a, b))).With("overlaps", strconv.Itoa(min(a, b)))
}
