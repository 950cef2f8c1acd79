package fsops

import (
	"bytes"
	"sort"

	"golang.org/x/text/unicode/norm"
)

// view is content as it is matched: in Unicode NFC and, where asked, with CRLF as LF. It knows where each of its bytes came from.
type view struct {
	data []byte
	// spans say where view and original differ in position. Between two spans, and after the last, positions run in parallel. Empty: equal.
	spans []span
}

// span is a stretch of the original that became another stretch of the view.
type span struct {
	viewStart, viewEnd int
	origStart, origEnd int
}

// newView makes the view of data. When nothing has to change the view shares data.
func newView(data []byte, foldCRLF bool) view {
	crlf := foldCRLF && bytes.Contains(data, []byte("\r\n"))
	if !crlf && norm.NFC.IsNormal(data) {
		return view{data: data}
	}
	var v view
	v.data = make([]byte, 0, len(data))
	pos := 0
	for pos < len(data) {
		next := pos + ordinary(data[pos:], foldCRLF)
		v.data = append(v.data, data[pos:next]...)
		pos = next
		if pos == len(data) {
			break
		}
		if foldCRLF && bytes.HasPrefix(data[pos:], []byte("\r\n")) {
			v.replace([]byte{'\n'}, pos, pos+2)
			pos += 2
			continue
		}
		n := norm.NFC.NextBoundary(data[pos:], true)
		if n <= 0 {
			n = len(data) - pos
		}
		segment := data[pos : pos+n]
		composed := norm.NFC.Bytes(segment)
		if bytes.Equal(composed, segment) {
			v.data = append(v.data, segment...)
		} else {
			v.replace(composed, pos, pos+n)
		}
		pos += n
	}
	return v
}

// ordinary returns how many bytes from the start are ASCII and need no look: none that begins a CRLF, none that a combining mark follows.
func ordinary(data []byte, foldCRLF bool) int {
	for i, c := range data {
		if c >= 0x80 {
			return max(i-1, 0)
		}
		if foldCRLF && c == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			return i
		}
	}
	return len(data)
}

func (v *view) replace(with []byte, origStart, origEnd int) {
	start := len(v.data)
	v.data = append(v.data, with...)
	v.spans = append(v.spans, span{viewStart: start, viewEnd: len(v.data), origStart: origStart, origEnd: origEnd})
}

// original maps a position of the view to the original. False: the position is inside a stretch that changed, where there is no counterpart.
func (v *view) original(pos int) (int, bool) {
	i := sort.Search(len(v.spans), func(i int) bool { return v.spans[i].viewStart >= pos })
	// Span i begins at or after pos, span i-1 before it.
	if i == 0 {
		return pos, true
	}
	s := v.spans[i-1]
	if pos < s.viewEnd {
		return 0, false
	}
	return s.origEnd + pos - s.viewEnd, true
}
